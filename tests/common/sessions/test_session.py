"""common/sessions/session.py: what is made, in which order, and what is left to make; nothing is launched."""

import contextlib
import io
import re
import signal
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from common.errors import UserError
from common.measurement import machine
from common.sessions import session

SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Launch:
    """A made-up launch."""

    name: str


@dataclass(frozen=True)
class Ended:
    """What is kept of one: its status, which is all that its file has."""

    status: str
    reason: str | None = None
    log: str | None = None


@dataclass(frozen=True)
class Arguments:
    """What every session is given."""

    results: Path = Path("results")
    order_seed: int | None = None


ROUNDS = session.numbered([[Launch("a-1"), Launch("b-1")], [Launch("a-2"), Launch("b-2")]])


def read(path):
    return Ended(path.read_text())


def interrupt():
    raise KeyboardInterrupt


def making(made, fail=(), interrupted_at=None, by=interrupt):
    """A function that makes launches and notes them in `made`; it is interrupted at one, once it is as far."""

    def make(launch, folder):
        if launch.name == interrupted_at:
            by()
        made.append(launch.name)
        (folder / f"{launch.name}.json").write_text("failed" if launch.name in fail else "ok")
        return Ended("failed", "It broke.", "its.log") if launch.name in fail else Ended("ok")

    return make


@pytest.fixture
def run(monkeypatch, tmp_path):
    """A function that runs a session, and returns its folder and what it printed: no launch measures anything, so
    others may meanwhile.
    """
    monkeypatch.setattr(machine, "alone", contextlib.nullcontext)
    # What a session forgets to catch is to fail a test, and not to end all of them.
    before = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
    console = Console(file=io.StringIO(), width=200)

    def start(make, rounds=lambda seed, folder: ROUNDS):
        arguments = Arguments(results=tmp_path, order_seed=7)
        folder = session.run(console, "mine", arguments, "two rounds", rounds, make, read)
        return folder, console.file.getvalue()

    yield start
    for number, handler in before.items():
        signal.signal(number, handler)


def interrupted(run, tmp_path, make):
    """The folder of a session that doesn't come to its end, and the status with which it leaves."""
    with pytest.raises(SystemExit) as ending:
        run(make)
    [folder] = tmp_path.glob("*-mine")
    return folder, ending.value.code


def test_every_launch_of_every_round_is_made_and_said_and_the_session_is_finished(run):
    made = []
    folder, printed = run(making(made, fail=["b-1"]))
    assert made == ["a-1", "b-1", "a-2", "b-2"]
    assert (folder / "finished").exists()
    lines = [re.sub(r"\s+\d+\.\d s$", "", line).strip() for line in printed.splitlines()]
    assert lines[-6:] == [
        "round 1 of 2:",
        "ok  a-1",
        "failed  b-1: It broke. (log: its.log)",
        "round 2 of 2:",
        "ok  a-2",
        "ok  b-2",
    ]


@pytest.mark.parametrize(
    "by",
    [interrupt, *(partial(signal.raise_signal, number) for number in SIGNALS)],
    ids=["the keyboard", "SIGTERM", "SIGHUP"],
)
def test_an_interrupted_session_leaves_with_a_status_of_its_own_and_is_not_finished(run, tmp_path, by):
    made = []
    folder, status = interrupted(run, tmp_path, making(made, interrupted_at="a-2", by=by))
    assert (status, made) == (130, ["a-1", "b-1"])
    assert not (folder / "finished").exists()


def test_a_session_that_goes_on_makes_what_is_missing_or_failed(run, tmp_path):
    before, after = [], []
    first, _ = interrupted(run, tmp_path, making(before, fail=["b-1"], interrupted_at="a-2"))
    folder, _ = run(making(after))
    assert folder == first
    assert (before, after) == (["a-1", "b-1"], ["b-1", "a-2", "b-2"])
    assert (folder / "finished").exists()


def test_a_session_that_goes_on_keeps_its_order(run, tmp_path):
    seeds = []

    def rounds(seed, folder):
        seeds.append((seed, folder))
        return ROUNDS

    with pytest.raises(SystemExit):
        run(making([], interrupted_at="a-1"), rounds)
    [folder] = tmp_path.glob("*-mine")
    (folder / "order_seed.txt").write_text("11")
    run(making([]), rounds)
    assert seeds == [(7, folder), (11, folder)]
    assert (folder / "command.txt").read_text() == f"nox -s mine -- --results {tmp_path} --order-seed 11\n"


def test_a_round_is_asked_for_when_the_one_before_has_been_made(run):
    events = []

    def rounds(seed, folder):
        for title, launches in ROUNDS:
            events.append(title)
            yield title, launches

    run(making(events), rounds)
    assert events == ["round 1 of 2", "a-1", "b-1", "round 2 of 2", "a-2", "b-2"]


def test_a_second_session_in_the_same_folder_is_refused_while_the_first_one_fills_it(run):
    refused = []

    def make(launch, folder):
        with pytest.raises(UserError, match="Another session fills") as refusal:
            run(making([]))
        refused.append(str(refusal.value))
        return Ended("ok")

    folder, _ = run(make)
    assert refused == 4 * [f"Another session fills {folder}: wait for its end, or name another folder with --results."]


@pytest.mark.parametrize(
    ("statuses", "said", "status"),
    [
        ([], "0 launches: 0 ok, 0 unsupported, 0 failed.", 0),
        (["ok", "unsupported", "ok"], "3 launches: 2 ok, 1 unsupported, 0 failed.", 0),
        (["ok", "failed"], "2 launches: 1 ok, 0 unsupported, 1 failed.", 1),
    ],
)
def test_its_end_says_how_many_launches_ended_how(statuses, said, status):
    console = Console(file=io.StringIO(), width=200)
    assert session.ended(console, map(Ended, statuses)) == status
    assert console.file.getvalue() == f"{said}\n"
