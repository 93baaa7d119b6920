"""What the record says that a TensorFlow process holds of the model."""

import math

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.contract.test_contract import SYNCHRONOUS, contract_config

# Copies of the parameters, of their gradients and of the momentum, in each process.
CASES = {
    "tf_one_device": [(1, 1, 1)],
    "tf_mirrored": [(2, 2, 2)],
    "tf_keras_mirrored": [(2, 2, 2)],
    "tf_central_storage": [(1, 2, 1)],
    "tf_multi_worker_mirrored": [(1, 1, 1), (1, 1, 1)],
    "horovod_tensorflow": [(1, 1, 1), (1, 1, 1)],
    "horovod_keras": [(1, 1, 1), (1, 1, 1)],
}
QUICK = ("tf_mirrored", "tf_central_storage")


def short_config(strategy, folder, **overrides):
    workers = 1 if strategy == "tf_one_device" else 2
    return contract_config("digits", workers, folder, steps=3, warmup_steps=1, **overrides)


@pytest.mark.parametrize(
    "strategy", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.grid]) for name in CASES]
)
@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_every_copy_in_the_process_counts(strategy, momentum, launch, tmp_path):
    config = short_config(strategy, tmp_path, momentum=momentum)
    launched = launch(strategy, config)
    assert launched.status == 0, launched.output
    state = load_file(config.checkpoint)
    weights = sum(array.nbytes for name, array in state.items() if name.endswith((".weight", ".bias")))
    assert weights == np.float32().nbytes * sum(
        math.prod(layer) + layer[1] for layer in zip(config.dimensions, config.dimensions[1:], strict=False)
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
    launched = launch(strategy, short_config(strategy, tmp_path, **SYNCHRONOUS[strategy]))
    assert launched.status == 0, launched.output
    [process] = launched.record.memory_bytes
    assert set(process) == {"above_import"}
