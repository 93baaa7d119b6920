"""common/check/marks.py: from weights and losses alone a mistake is named, with 2 workers and with 4."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from common.check.marks import read
from common.check.world import Assignment
from common.contract.mistakes import CAUSES, MISTAKES
from common.declarations import catalogue
from tests.common.check.kinds import EDITS, NOT_IN_A_FILE, REAL, UNFILLED, program
from tests.common.contract.launches_in_numpy import MADE, steps_of

KINDS = (
    *("not sent", "not exchanged", "summed", "one step old", "not zeroed", "decoupled decay", "momentum lost"),
    *("rounded", "rows"),
)
"""Some kinds of mistakes, each of which is read from something else that a file reports."""


def said_of(workers, task, **changed):
    """What is said of such a training by its weights after each step and its losses, with the kind as the remedy."""
    states, losses = zip(*steps_of(task.steps + 1, workers, task=task, **changed), strict=True)
    weights = [
        [np.concatenate([value.ravel() for value in after[rank % len(after)].values()]) for after in states[1:]]
        for rank in range(workers)
    ]
    world = SimpleNamespace(workers=workers, task=task, is_whole=False)
    return read(world, np.array(losses[:-1]).T, np.array(weights), {kind: kind for kind in MADE}).mistakes


def task_of(workers, seed=None):
    """Without a seed another task in each call, as for each launch."""
    return dataclasses.replace(Assignment(workers=(workers,), seed=seed).task(), workers=workers)


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_named_alone(kind, workers):
    # With seed 142 a row of the first step is at a kink, and two workers in float32 are on its other side.
    changed, _ = MADE[kind]
    [said] = said_of(workers, task_of(workers, seed=142), **changed)
    assert said.endswith(f" {kind}")


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_nothing_is_said_of_a_right_training(workers):
    for task in [task_of(workers) for _ in range(5)]:
        assert said_of(workers, task) == (), task.seed


def test_every_kind_that_a_file_can_make_is_made_by_a_file():
    kinds = {*(each.name for each in MISTAKES), *CAUSES} - NOT_IN_A_FILE
    assert {*EDITS} <= kinds <= {*EDITS, *REAL.values(), *UNFILLED.values()}
    assert len({program(kind) for kind in EDITS}) == len(EDITS)


@pytest.mark.parametrize("family", catalogue.families().values(), ids=lambda family: family.environment)
def test_a_framework_words_remedies_of_mistakes_that_there_are(family):
    assert {*family.remedies} <= {*MADE, "not broadcast"}
