"""common/check: real mistakes are named, right files are right, and filled exercises pass, each in launches of its own.

Every kind in every framework, and all numbers of workers, are in the grid of `nox -s contract`.
"""

from pathlib import Path

import pytest

from common.check.marks import Mark, mark
from common.check.training_file import like_of
from common.check.world import Assignment
from common.contract.mistakes import CAUSES, MISTAKES
from common.declarations.catalogue import find
from common.launching.launch import python_for
from common.paths import ROOT
from tests.common.check.kinds import EDITS, GALLERY, REAL, TEMPLATES, UNFILLED, program
from tests.common.check.solutions import EXERCISES, SOLUTIONS, filled
from tests.grid import in_grid

OFTEN = {("spd_546", 2), ("transformers_34191", 2)}
"""Real mistakes that every run of the tests starts, and with how many workers."""


def marked(path: Path, workers: int, folder: Path) -> Mark:
    """The mark of a launch. Raises NotInstalledError without the framework's environment, which skips the test."""
    like, _ = like_of(path.read_text(encoding="utf-8"), None)
    python_for(like)
    return mark(path, workers, Assignment(workers=(workers,)), folder / "log")


def marked_source(source: str, workers: int, folder: Path) -> Mark:
    path = folder / "own.py"
    path.write_text(source, encoding="utf-8")
    return marked(path, workers, folder)


def assert_named(found: Mark, kind: str) -> None:
    """That this kind, known by its remedy, or a sentence with these words is all that is said, but for what follows."""
    remedies = {each.name: each.remedy for each in MISTAKES} | {name: remedy for name, (_, remedy) in CAUSES.items()}
    words = (remedies | find(found.like).family.remedies).get(kind, kind)
    assert found.verdict == "wrong", found.sentences
    assert any(words in each for each in found.sentences), found.sentences
    following = "don't exchange gradients by the network", "Replicas differ before step"
    assert all(any(part in each for part in (words, *following)) for each in found.sentences), found.sentences


@pytest.mark.parametrize(("name", "workers"), in_grid([(name, workers) for name in REAL for workers in (2, 4)], OFTEN))
def test_a_real_mistake_is_named(name, workers, tmp_path):
    assert_named(marked(GALLERY[name], workers, tmp_path), REAL[name])


def test_every_file_of_the_gallery_is_tried_and_stands_in_the_readme_with_its_project_and_number():
    assert {*GALLERY} == {*REAL}
    table = (ROOT / "common" / "check" / "README.md").read_text(encoding="utf-8")
    for path in GALLERY.values():
        project, number = path.read_text(encoding="utf-8").removeprefix('"""').partition(":")[0].split(", ")
        assert f"[{project} {number.split()[-1]}]" in table, path
        assert f"({Path('..', '..').joinpath(path.relative_to(ROOT))})" in table, path


@pytest.mark.grid
@pytest.mark.parametrize("framework", [name for name in TEMPLATES if name != "torch"])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_right_file_is_right(framework, workers, tmp_path):
    """Torch's is an exercise that is filled."""
    found = marked_source(program(framework), workers, tmp_path)
    assert (found.verdict, found.sentences) == ("right", ())


@pytest.mark.grid
@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize(("framework", "kind"), [(name, kind) for name, edits in EDITS.items() for kind in edits])
def test_every_kind_is_named_in_every_framework(framework, kind, workers, tmp_path):
    assert_named(marked_source(program(framework, kind), workers, tmp_path), kind)


@pytest.mark.parametrize(
    ("exercise", "workers"),
    in_grid([(name, workers) for name in EXERCISES for workers in (1, 2, 4)], [("ring_all_reduce", 2)]),
)
def test_a_filled_exercise_is_right(exercise, workers, tmp_path):
    found = marked_source(filled(exercise), workers, tmp_path)
    assert (found.verdict, found.sentences) == ("right", ())


@pytest.mark.parametrize(
    ("exercise", "workers"),
    in_grid([(name, workers) for name in EXERCISES for workers in (2, 4)], [("parameter_server", 2)]),
)
def test_an_exercise_runs_as_it_stands_and_is_told_what_is_missing(exercise, workers, tmp_path):
    assert_named(marked(EXERCISES[exercise], workers, tmp_path), UNFILLED[exercise])


def test_every_exercise_has_a_solution():
    assert {*EXERCISES} == {*SOLUTIONS} == {*UNFILLED}
