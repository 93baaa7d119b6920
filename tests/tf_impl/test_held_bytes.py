"""What the record says that a TensorFlow process holds of the model."""

import itertools
import math

import numpy as np
import pytest
from safetensors.numpy import load_file

from common.catalogue import find, strategies
from common.strategy import Work
from tests.contract.worlds import contract_task

COPIES = {
    Work.UNDISTRIBUTED: [(1, 1, 1)],
    Work.REPLICAS_IN_ONE_PROCESS: [(2, 2, 2)],
    Work.DATA_PARALLEL: [(1, 1, 1), (1, 1, 1)],
}
"""Copies of the parameters, of their gradients and of the momentum, in each process of a launch with two workers."""

CASES = {
    name: COPIES[strategy.work]
    for name, strategy in strategies().items()
    if strategy.framework == "tensorflow" and strategy.work in COPIES
} | {"tf_central_storage": [(1, 2, 1)]}
"""The replicas of `tf_central_storage` share the variables."""

QUICK = ("tf_mirrored", "tf_central_storage")


def short_task(strategy, folder, **overrides):
    workers = find(strategy).most_workers or 2
    return contract_task("digits", workers, folder, steps=3, warmup_steps=1, **overrides)


@pytest.mark.parametrize(
    "strategy", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.grid]) for name in CASES]
)
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_every_copy_in_the_process_counts(strategy, momentum, launch, tmp_path):
    task = short_task(strategy, tmp_path, momentum=momentum)
    launched = launch(strategy, task)
    assert launched.status == 0, launched.output
    state = load_file(task.checkpoint)
    weights = sum(array.nbytes for name, array in state.items() if name.endswith((".weight", ".bias")))
    assert weights == np.float32().nbytes * sum(
        math.prod(layer) + layer[1] for layer in itertools.pairwise(task.dimensions)
    )
    names = ("parameters", "gradients", "optimizer_state")
    held = [tuple(process[name] for name in names) for process in launched.record.memory_bytes]
    assert held == [
        (parameters * weights, gradients * weights, bool(momentum) * momenta * weights)
        for parameters, gradients, momenta in CASES[strategy]
    ]


@pytest.mark.grid
def test_of_servers_the_record_says_nothing(launch, tmp_path):
    """The coordinator writes the record, and it holds nothing of the model."""
    strategy = "tf_parameter_server"
    launched = launch(strategy, short_task(strategy, tmp_path), **find(strategy).synchronous_with)
    assert launched.status == 0, launched.output
    [process] = launched.record.memory_bytes
    assert set(process) == {"above_import"}
