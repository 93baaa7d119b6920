"""common/check: real mistakes are named, right files are right, and filled exercises pass, each in launches of its own.

Every kind of mistake, every strategy of this suite as a user's own loop, and all numbers of workers are in the grid of
`nox -s contract`.
"""

import dataclasses
import os
import re
from types import SimpleNamespace

import numpy as np
import pytest

from common.check import marks
from common.check.marks import Mark, mark
from common.check.world import Assignment
from common.contract.mistakes import CAUSES, MISTAKES
from common.contract.work import Work
from common.declarations import catalogue
from common.declarations.arguments import to_arguments
from common.errors import UserError
from common.files import cache_folder
from common.paths import ROOT
from tests.common.check import kinds
from tests.common.contract.launches_in_numpy import MADE, steps_of
from tests.grid import in_grid

OFTEN = {("spd_546", 2), ("transformers_34191", 2)}
"""Real mistakes that every run of the tests starts, and with how many workers."""

REMEDIES = {each.name: each.remedy for each in MISTAKES} | {name: remedy for name, (_, remedy) in CAUSES.items()}
"""Of each kind of mistake that is known, but in a framework's own words."""

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


def assert_named(found: Mark, kind: str) -> None:
    """That this kind, known by its remedy, or a sentence with these words is all that is said, but for what follows."""
    words = (REMEDIES | catalogue.find(found.like).family.remedies).get(kind, kind)
    assert found.verdict == "wrong", found.sentences
    assert any(words in each for each in found.sentences), found.sentences
    following = "don't exchange gradients by the network", "Replicas differ before step"
    assert all(any(part in each for part in (words, *following)) for each in found.sentences), found.sentences


@pytest.mark.parametrize(
    ("name", "workers"), in_grid([(name, workers) for name in kinds.REAL for workers in (2, 4)], OFTEN)
)
def test_a_real_mistake_is_named(name, workers, tmp_path):
    assert_named(kinds.marked(kinds.GALLERY[name], workers, tmp_path), kinds.REAL[name])


def test_every_file_of_the_gallery_is_tried_and_stands_in_the_readme_with_its_project_and_number():
    assert {*kinds.GALLERY} == {*kinds.REAL}
    table = (ROOT / "common" / "check" / "README.md").read_text(encoding="utf-8")
    for name, source in kinds.GALLERY.items():
        project, number = source.removeprefix('"""').partition(":")[0].split(", ")
        assert f"[{project} {number.split()[-1]}]" in table, name
        assert f"(../../tests/common/check/gallery/{name}.py)" in table, name


@pytest.mark.grid
@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("kind", kinds.EDITS)
def test_every_kind_is_named(kind, workers, tmp_path):
    assert_named(kinds.marked(kinds.program(kind), workers, tmp_path), kind)


def test_every_kind_that_a_file_can_make_is_made_by_a_file():
    known = {*REMEDIES} - kinds.NOT_IN_A_FILE
    assert {*kinds.EDITS} <= known <= {*kinds.EDITS, *kinds.REAL.values(), *kinds.UNFILLED.values()}
    assert len({kinds.program(kind) for kind in kinds.EDITS}) == len(kinds.EDITS)


def test_a_row_at_a_kink_in_the_first_step_tells_no_other_weights():
    # With this seed two workers in float32 are on its other side.
    task = dataclasses.replace(Assignment(seed=142).task(), workers=2)
    changed, sentence = MADE["not exchanged"]
    states, losses = zip(*steps_of(task.steps + 1, 2, task=task, **changed), strict=True)
    weights = [
        [np.concatenate([value.ravel() for value in after[rank].values()]) for after in states[1:]] for rank in range(2)
    ]
    world = SimpleNamespace(workers=2, task=task, is_whole=False)
    [said] = marks.read(world, np.array(losses[:-1]).T, np.array(weights), {}).mistakes
    assert said.startswith(sentence)


@pytest.mark.parametrize("family", catalogue.families().values(), ids=lambda family: family.environment)
def test_a_framework_words_remedies_of_mistakes_that_there_are(family):
    assert {*family.remedies} <= {*REMEDIES, "not broadcast"}


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
    in_grid([(name, workers) for name in kinds.EXERCISES for workers in (1, 2, 4)], [("ring_all_reduce", 2)]),
)
def test_a_filled_exercise_is_right(exercise, workers, tmp_path):
    found = kinds.marked(kinds.filled(exercise), workers, tmp_path)
    assert (found.verdict, found.sentences) == ("right", ())


@pytest.mark.parametrize(
    ("exercise", "workers"),
    in_grid([(name, workers) for name in kinds.EXERCISES for workers in (2, 4)], [("parameter_server", 2)]),
)
def test_an_exercise_runs_as_it_stands_and_is_told_what_is_missing(exercise, workers, tmp_path):
    assert_named(kinds.marked(kinds.EXERCISES[exercise], workers, tmp_path), kinds.UNFILLED[exercise])


def test_every_exercise_has_a_solution():
    assert {*kinds.EXERCISES} == {*kinds.SOLUTIONS} == {*kinds.UNFILLED}
