"""What the contract's tests train leaves room for rounding: float32 alone takes a third of each tolerance at most."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from common.contract.mlp import parameter_names
from common.contract.oracle import (
    LOSS_TOLERANCE,
    WEIGHT_TOLERANCE,
    loss_deviations,
    run_alone,
    run_oracle,
    weight_deviation,
)
from common.contract.rows import share_of
from common.contract.task import maths_of
from common.contract.work import Alone
from common.declarations.catalogue import strategies
from tests.conftest import oracle_of
from tests.contract.cases import WORLDS, case_of, following, without_exchange


@cache
def in_use(cases):
    """Maths, global batch, steps and workers of everything that some strategy trains in these cases, once each."""
    tasks = {}
    for name, workers in WORLDS.items():
        for case in cases(name):
            task = case_of(name, case, Path()).task
            batch = share_of(task, strategies()[name].work, True, 0, workers).global_batch
            tasks[maths_of(task), batch, task.steps, workers] = f"{task.preset}-{batch}-{workers}"
    return tasks


def named(cases):
    return [pytest.param(*key, id=name) for key, name in in_use(cases).items()]


def assert_near(task, losses, states, expected_losses, expected_states):
    assert np.max([*map(loss_deviations, losses, expected_losses)]) < LOSS_TOLERANCE / 3
    names = parameter_names(task)
    for state, expected in zip(states, expected_states, strict=True):
        parts = [{name: each[name] for name in names} for each in (state, expected)]
        assert weight_deviation(*parts) < WEIGHT_TOLERANCE / 3


@pytest.mark.parametrize(("task", "batch", "steps", "workers"), named(following))
def test_float32_follows_the_oracle_and_each_shard_within_a_third_of_the_tolerances(task, batch, steps, workers):
    found, expected = run_oracle(task, batch, steps, np.float32), oracle_of(task, batch, steps)
    losses = [[each.losses, *each.shard_losses(workers)] for each in (found, expected)]
    assert_near(task, losses[0], [found.state], losses[1], [expected.state])


@pytest.mark.parametrize("alone", Alone)
@pytest.mark.parametrize(("task", "batch", "steps", "workers"), named(without_exchange))
def test_float32_without_exchange_stays_as_near(task, batch, steps, workers, alone):
    found, expected = (run_alone(task, batch, steps, workers, alone, dtype) for dtype in (np.float32, np.float64))
    losses = [each.shard_losses(workers) for each in (found, expected)]
    assert_near(task, losses[0], found.states, losses[1], expected.states)
