"""common/check: real mistakes are named, right files are right, and filled exercises pass, each in its own launches.

Every kind in every framework, and all numbers of workers, are in the grid of `nox -s contract`.
"""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from common.check import marks
from common.check.marks import Mark
from common.check.world import Assignment
from common.contract.mistakes import CAUSES, MISTAKES
from common.declarations import catalogue
from common.paths import ROOT
from tests.common.check import user_files
from tests.common.check.kinds import EDITS, NOT_IN_A_FILE, TEMPLATES, program
from tests.common.contract.launches_in_numpy import MADE, steps_of
from tests.grid import in_grid

OFTEN = {("spd_546", 2), ("transformers_34191", 2)}
"""Real mistakes that every run of the tests starts, and with how many workers."""

REMEDIES = {each.name: each.remedy for each in MISTAKES} | {name: remedy for name, (_, remedy) in CAUSES.items()}
"""Of each kind of mistake that is known, but in a framework's own words."""


def assert_named(found: Mark, kind: str) -> None:
    """That this kind, known by its remedy, or a sentence with these words is all that is said, but for what follows."""
    words = (REMEDIES | catalogue.find(found.like).family.remedies).get(kind, kind)
    assert found.verdict == "wrong", found.sentences
    assert any(words in each for each in found.sentences), found.sentences
    following = "don't exchange gradients by the network", "Replicas differ before step"
    assert all(any(part in each for part in (words, *following)) for each in found.sentences), found.sentences


@pytest.mark.parametrize(
    ("name", "workers"), in_grid([(name, workers) for name in user_files.REAL for workers in (2, 4)], OFTEN)
)
def test_a_real_mistake_is_named(name, workers, tmp_path):
    assert_named(user_files.marked(user_files.GALLERY[name], workers, tmp_path), user_files.REAL[name])


def test_every_file_of_the_gallery_is_tried_and_stands_in_the_readme_with_its_project_and_number():
    assert {*user_files.GALLERY} == {*user_files.REAL}
    table = (ROOT / "common" / "check" / "README.md").read_text(encoding="utf-8")
    for name, source in user_files.GALLERY.items():
        project, number = source.removeprefix('"""').partition(":")[0].split(", ")
        assert f"[{project} {number.split()[-1]}]" in table, name
        assert f"(../../tests/common/check/gallery/{name}.py)" in table, name


@pytest.mark.grid
@pytest.mark.parametrize("framework", [name for name in TEMPLATES if name != "torch"])
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_right_file_is_right(framework, workers, tmp_path):
    """Torch's is an exercise that is filled."""
    found = user_files.marked(program(framework), workers, tmp_path)
    assert (found.verdict, found.sentences) == ("right", ())


@pytest.mark.grid
@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize(("framework", "kind"), [(name, kind) for name, edits in EDITS.items() for kind in edits])
def test_every_kind_is_named_in_every_framework(framework, kind, workers, tmp_path):
    assert_named(user_files.marked(program(framework, kind), workers, tmp_path), kind)


def test_every_kind_that_a_file_can_make_is_made_in_files_half_of_them_in_each_framework():
    kinds = {*REMEDIES} - NOT_IN_A_FILE
    assert {*EDITS["torch"], *user_files.REAL.values(), *user_files.UNFILLED.values()} >= kinds
    for framework, edits in EDITS.items():
        assert len(edits) >= len(kinds) / 2
        assert {*edits} <= kinds
        assert len({program(framework), *(program(framework, kind) for kind in edits)}) == len(edits) + 1


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


@pytest.mark.parametrize(
    ("exercise", "workers"),
    in_grid([(name, workers) for name in user_files.EXERCISES for workers in (1, 2, 4)], [("ring_all_reduce", 2)]),
)
def test_a_filled_exercise_is_right(exercise, workers, tmp_path):
    found = user_files.marked(user_files.filled(exercise), workers, tmp_path)
    assert (found.verdict, found.sentences) == ("right", ())


@pytest.mark.parametrize(
    ("exercise", "workers"),
    in_grid([(name, workers) for name in user_files.EXERCISES for workers in (2, 4)], [("parameter_server", 2)]),
)
def test_an_exercise_runs_as_it_stands_and_is_told_what_is_missing(exercise, workers, tmp_path):
    assert_named(user_files.marked(user_files.EXERCISES[exercise], workers, tmp_path), user_files.UNFILLED[exercise])


def test_every_exercise_has_a_solution():
    assert {*user_files.EXERCISES} == {*user_files.SOLUTIONS} == {*user_files.UNFILLED}
