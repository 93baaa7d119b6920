"""What the contract's tests train leaves room for rounding: float32 alone takes a third of each tolerance at most."""

import numpy as np
import pytest

from common.contract.model import is_smooth
from common.contract.oracle import LOSS_TOLERANCE, run_oracle
from common.contract.rows import share_of
from common.contract.task import maths_of
from common.declarations.catalogue import strategies
from tests.conftest import oracle_of
from tests.contract.worlds import FOLLOWING, WORLDS, cases_of, of_kind


def maths_in_use():
    """Maths, global batch, steps and workers of everything that is to follow the oracle, once each."""
    tasks = {}
    for name, case in of_kind(FOLLOWING):
        task, workers = cases_of(name)[case].task, WORLDS[name]
        # Of other networks the recipe alone is held, which begins each step with the launch's own weights.
        if is_smooth(task):
            batch = share_of(task, strategies()[name].work, True, 0, workers).global_batch
            tasks[maths_of(task), batch, task.steps, workers] = f"{task.preset}-{batch}-{workers}"
    return [pytest.param(*key, id=name) for key, name in tasks.items()]


@pytest.mark.parametrize(("task", "batch", "steps", "workers"), maths_in_use())
def test_float32_follows_the_oracle_and_each_shard_within_a_third_of_the_tolerance(task, batch, steps, workers):
    found, expected = run_oracle(task, batch, steps, np.float32), oracle_of(task, batch, steps)
    for shards in (1, workers):
        exact = expected.shard_losses(shards)
        assert np.abs(found.shard_losses(shards) / exact - 1).max() < LOSS_TOLERANCE / 3
