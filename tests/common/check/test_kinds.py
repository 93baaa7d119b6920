"""common/check/marks.py: from weights and losses alone a mistake is named, with 2 workers and with 4."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from common.check.marks import read
from common.check.world import Assignment
from tests.common.check.kinds import EDITS, NOT_IN_A_FILE, WORDS, all_kinds, program
from tests.common.contract.launches_in_numpy import (
    combined,
    mean_of,
    not_zeroed,
    of_own,
    one_step_old,
    own,
    scaled,
    sgd_of_given,
    sgd_with,
    steps_of,
    upper_half,
    with_row,
)

CHANGES = {
    "not sent": lambda task, workers: {"combine": of_own, "sgd": sgd_of_given, "replicas": workers},
    "not exchanged": lambda task, workers: {"combine": own, "replicas": workers},
    "summed": lambda task, workers: {"combine": scaled(workers)},
    "sum over rows": lambda task, workers: {"combine": scaled(task.batch // workers)},
    "one step old": lambda task, workers: {"combine": one_step_old()},
    "not zeroed": lambda task, workers: {"combine": not_zeroed()},
    "decoupled decay": lambda task, workers: {"sgd": sgd_with(decoupled=True)},
    "momentum lost": lambda task, workers: {"taught": dataclasses.replace(task, momentum=0.0)},
    "activation": lambda task, workers: {"taught": dataclasses.replace(task, activation="tanh")},
    "rounded": lambda task, workers: {"combine": combined(upper_half)},
    "rows": lambda task, workers: {"rows": with_row(lambda rows: np.concatenate([rows[1:2], rows[1:]]))},
}
"""What to change in a right training to make some kinds of mistakes: parameters of `steps_of`.

Each of them is read from something else that a file reports. All kinds are tried by the contract's tests.
"""


def said_of(workers, task, **changed):
    """What is said of such a training by its weights after each step and its losses."""
    states, losses = zip(*steps_of(task.steps + 1, workers, task=task, **changed), strict=True)
    weights = [
        [np.concatenate([value.ravel() for value in after[rank % len(after)].values()]) for after in states[1:]]
        for rank in range(workers)
    ]
    world = SimpleNamespace(workers=workers, task=task, is_whole=False)
    return read(world, np.array(losses[:-1]).T, np.array(weights), {}).mistakes


def task_of(workers, seed=None):
    """Without a seed another task in each call, as for each launch."""
    return dataclasses.replace(Assignment(workers=(workers,), seed=seed).task(), workers=workers)


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("kind", CHANGES)
def test_a_kind_is_named_alone(kind, workers):
    # With seed 142 a row of the first step is at a kink, and two workers in float32 are on its other side.
    task = task_of(workers, seed=142)
    said = said_of(workers, task, **CHANGES[kind](task, workers))
    assert len(said) == 1, (task.seed, said)
    assert WORDS[kind] in said[0], task.seed


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_nothing_is_said_of_a_right_training(workers):
    for task in [task_of(workers) for _ in range(5)]:
        assert said_of(workers, task, combine=mean_of) == (), task.seed


def test_every_kind_that_a_file_can_make_is_made_in_files_half_of_them_in_each_framework():
    assert all_kinds() - NOT_IN_A_FILE == {*WORDS} == {*EDITS["torch"]}
    for framework, edits in EDITS.items():
        assert len(edits) >= len(WORDS) / 2
        assert {*edits} <= {*WORDS}
        assert len({program(framework), *(program(framework, kind) for kind in edits)}) == len(edits) + 1
