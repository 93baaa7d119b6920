"""common/command_line.py: the line that it gives is read as the same arguments, by the shell and then by tyro."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
import tyro

from common.command_line import of_session, options_of


@dataclass(frozen=True)
class Part:
    """Options without a prefix."""

    names: tuple[str, ...] = ()
    counts: tuple[int, ...] = (1, 2)
    share: float = 0.05


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Options of each kind."""

    part: tyro.conf.OmitArgPrefixes[Part] = field(default_factory=Part)
    dry_run: bool = False
    colored: bool = True
    folder: Path = Path("results")
    seed: int | None = None
    patience: float | None = 3.0
    text: str | None = None


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ({}, []),
        ({"part": Part(names=("a", "b c"), share=0.1)}, ["--names", "a", "b c", "--share", "0.1"]),
        ({"part": Part(counts=())}, ["--counts"]),
        ({"part": Part(counts=(4,)), "dry_run": True}, ["--counts", "4", "--dry-run"]),
        ({"colored": False, "seed": 0}, ["--no-colored", "--seed", "0"]),
        ({"patience": None}, ["--patience", "None"]),
        ({"patience": 10.0}, ["--patience", "10"]),
        ({"patience": float("inf"), "seed": -3}, ["--seed=-3", "--patience", "inf"]),
        ({"folder": Path("/a folder/$HOME"), "text": "it's"}, ["--folder", "/a folder/$HOME", "--text", "it's"]),
        ({"text": "--dry-run"}, ["--text=--dry-run"]),
        ({"text": ""}, ["--text", ""]),
    ],
)
def test_the_options_are_those_that_are_not_at_their_default_and_tyro_reads_the_same_arguments(values, options):
    arguments = Arguments(**values)
    assert options_of(arguments, Arguments()) == options
    assert tyro.cli(Arguments, args=options) == arguments


def test_a_line_is_what_a_shell_takes_apart_into_the_session_and_its_options():
    line = of_session("compare", Arguments(folder=Path("a folder"), seed=7))
    assert line == "nox -s compare -- --folder 'a folder' --seed 7"
