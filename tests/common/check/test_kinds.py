"""common/check/marks.py: from weights and losses alone every kind of mistake is named, with 2 workers and with 4."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from common.check.marks import read
from common.check.world import Assignment
from tests.common.check.kinds import EDITS, NOT_IN_A_FILE, WORDS, all_kinds, program
from tests.common.contract.launches_in_numpy import (
    clipped,
    combined,
    mean_of,
    not_zeroed,
    of_own,
    one_step_old,
    own,
    scaled,
    sgd_but,
    sgd_of_given,
    sgd_with,
    steps_of,
    upper_half,
    with_row,
)

TAUGHT = {
    "momentum lost": {"momentum": 0.0},
    "other momentum": {"momentum": 0.9},
    "decay missing": {"weight_decay": 0.0},
    "other decay": {"weight_decay": 0.01},
    "other rate": {"learning_rate": 0.13},
    "activation": {"activation": "tanh"},
}
"""Kinds that train another task."""


def weighted(shares):
    """Count each worker's gradient so often."""
    return lambda gradients, replica: {
        name: sum(np.float32(share) * each[name] for share, each in zip(shares, gradients, strict=True))
        for name in gradients[0]
    }


def largest(gradients, replica):
    return {name: np.max([each[name] for each in gradients], axis=0) for name in gradients[0]}


def changes(kind, task, workers):
    """What to change in a right training to make this kind of mistake: parameters of `steps_of`."""
    if kind in TAUGHT:
        return {"taught": dataclasses.replace(task, **TAUGHT[kind])}
    parts = [2 * (workers - worker) / (workers * (workers + 1)) for worker in range(workers)]
    return {
        "frozen": {"sgd": sgd_but(["layer1.weight"])},
        "not sent": {"combine": of_own, "sgd": sgd_of_given, "replicas": workers},
        "summed": {"combine": scaled(workers)},
        "rate times workers": {"taught": dataclasses.replace(task, learning_rate=task.learning_rate * workers)},
        "dampened": {"sgd": sgd_with(kept=0.5)},
        "averaged twice": {"combine": scaled(1 / workers)},
        "not exchanged": {"combine": own, "replicas": workers},
        "rank 0's alone": {"combine": lambda gradients, replica: gradients[0]},
        "sum over rows": {"combine": scaled(task.batch // workers)},
        "one step old": {"combine": one_step_old()},
        "not zeroed": {"combine": not_zeroed()},
        "nesterov": {"sgd": sgd_with(ahead=1)},
        "decoupled decay": {"sgd": sgd_with(decoupled=True)},
        "accumulated": {"combine": scaled(3)},
        "factor": {"combine": scaled(0.3)},
        "clipped": {"combine": clipped},
        "worker left out": {"combine": weighted([1 / workers] * (workers - 1) + [0])},
        "uneven": {"combine": weighted(parts)},
        "maximum": {"combine": largest},
        "rounded": {"combine": combined(upper_half)},
        "rows": {"rows": with_row(lambda rows: np.concatenate([rows[1:2], rows[1:]]))},
    }[kind]


def said_of(workers, task, **changed):
    """What is said of such a training by its weights after each step and its losses."""
    states, losses = zip(*steps_of(task.steps + 1, workers, task=task, **changed), strict=True)
    weights = [
        [np.concatenate([value.ravel() for value in after[rank % len(after)].values()]) for after in states[1:]]
        for rank in range(workers)
    ]
    world = SimpleNamespace(workers=workers, task=task, is_whole=False)
    return read(world, np.array(losses[:-1]).T, np.array(weights), {}).mistakes


def task_of(workers):
    """Another task in each call, as for each launch."""
    return dataclasses.replace(Assignment(workers=(workers,)).task(), workers=workers)


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("kind", WORDS)
def test_every_kind_is_named_alone(kind, workers):
    task = task_of(workers)
    [sentence] = said_of(workers, task, **changes(kind, task, workers))
    assert WORDS[kind] in sentence, task.seed


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_nothing_is_said_of_a_right_training(workers):
    for task in [task_of(workers) for _ in range(5)]:
        assert said_of(workers, task, combine=mean_of) == (), task.seed


def test_every_kind_that_a_file_can_make_is_made_here_and_in_files_half_of_them_in_each_framework():
    assert all_kinds() - NOT_IN_A_FILE == {*WORDS} == {*EDITS["torch"]}
    for framework, edits in EDITS.items():
        assert len(edits) >= len(WORDS) / 2
        assert {*edits} <= {*WORDS}
        assert len({program(framework), *(program(framework, kind) for kind in edits)}) == len(edits) + 1
