"""common/check: real mistakes are named, right files are right, and filled exercises pass, each in launches of its own.

Every kind of mistake, every strategy of this suite as a user's own loop, and all numbers of workers are in the grid of
`nox -s contract`.
"""

import dataclasses
import os
import re
from pathlib import Path

import pytest

from common.check import marks
from common.check.marks import Mark, mark
from common.check.training_file import like_of
from common.check.world import Assignment
from common.contract.mistakes import CAUSES, MISTAKES
from common.contract.work import Work
from common.declarations import catalogue
from common.declarations.arguments import to_arguments
from common.errors import UserError
from common.files import cache_folder
from common.launching.launch import python_for
from common.paths import ROOT
from tests.common.check.kinds import EDITS, EXERCISES, GALLERY, REAL, SOLUTIONS, UNFILLED, filled, program
from tests.grid import in_grid

OFTEN = {("spd_546", 2), ("transformers_34191", 2)}
"""Real mistakes that every run of the tests starts, and with how many workers."""

STRATEGIES = {name: each for name, each in catalogue.strategies().items() if each.work is not Work.COORDINATED}
"""Of a coordinator's workers only the coordinator has rows, so no process of theirs could report a loss."""

OF_THIS_SUITE = """
import runpy, sys
sys.path.insert(0, {root!r})
import numpy as np
from common.check import assignment
from common.measurement.run import Run

def observe(run, losses, rows=0, steps=1, own=Run.observe):
    own(run, losses, rows, steps)
    value = losses() if callable(losses) else losses
    means = [value if value is None else float(np.mean([float(each) for each in np.ravel(value)]))]
    if {is_whole}:
        # A pipeline's first stage sees no loss.
        means = [each for each in run.world.all_gather(means[0]) if each is not None]
    assignment.step(run._state(), means[0])

Run.observe = observe
sys.argv = {argv!r}
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Starts a strategy's script, whose rows and weights are the assignment's by the same seed."""


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
    words = (remedies | catalogue.find(found.like).family.remedies).get(kind, kind)
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
@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("kind", EDITS)
def test_every_kind_is_named(kind, workers, tmp_path):
    assert_named(marked_source(program(kind), workers, tmp_path), kind)


@pytest.mark.grid
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_of_this_suite_is_right(name, tmp_path, monkeypatch):
    strategy = STRATEGIES[name]
    workers, is_whole = strategy.most_workers or 2, strategy.work.is_divided
    assignment = Assignment(seed=7, rows="whole" if is_whole else "share", deadline_seconds=120.0)
    try:
        strategy.refuse(assignment.task(), strategy.options(), workers, 0)
    except UserError:
        # What computes another decay, by its library, says so.
        assignment = dataclasses.replace(assignment, momentum=0.0, weight_decay=0.0)
    task = dataclasses.replace(assignment.task(), workers=workers, record=tmp_path / "record.json")
    argv = [str(ROOT / strategy.script), *to_arguments(task, strategy.options())]
    path = tmp_path / "training.py"
    path.write_text(OF_THIS_SUITE.format(root=str(ROOT), is_whole=is_whole, argv=argv), encoding="utf-8")
    monkeypatch.setattr(marks, "like_of", lambda source, launcher: (strategy, strategy.launcher.name))
    monkeypatch.setenv("XDG_CACHE_HOME", os.path.dirname(cache_folder()))
    found = mark(path, workers, assignment, tmp_path / "log")
    log = re.sub(r"\n+", "\n", (tmp_path / "log").read_text(encoding="utf-8", errors="replace"))
    assert (found.verdict, found.sentences) == ("right", ()), log[-3000:]


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
