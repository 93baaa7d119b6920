"""The checks must be able to fail: broken maths, put into the real strategies, is caught every time."""

import pytest

from common.config import to_arguments
from common.launch import ROOT, UNDISTRIBUTED, command_for, environment_for, free_ports, strategies
from common.record import read_record
from tests.conftest import Launched, run_command
from tests.contract.test_contract import SYNCHRONOUS, contract_config

ALWAYS = ("sum", "scaled_rate", "float16")
"""What every strategy can get wrong."""

SHARDED = (*ALWAYS, "unsharded")
"""What those can whose workers or replicas each have rows of their own."""

COPIED = (*SHARDED, "skipped_broadcast")
"""What those can whose workers each have weights of their own, which could start apart."""

CONTROLS = {
    "torch_data_parallel": SHARDED,
    "torch_sync_sgd": COPIED,
    "torch_hook_ddp": COPIED,
    "torch_ddp": COPIED,
    "torch_zero": COPIED,
    "torch_fsdp": COPIED,
    "torch_lightning_ddp": COPIED,
    "torch_model_parallel": (*ALWAYS, "lost_micro_batch", "not_accumulated"),
    "torch_tensor_parallel": (*ALWAYS, "missing_gradient_sum", "repeated_bias"),
    "tf_mirrored": COPIED,
    "tf_multi_worker_mirrored": COPIED,
    "tf_central_storage": SHARDED,
    "tf_parameter_server": SHARDED,
    "tf_keras_mirrored": COPIED,
    "horovod_torch": COPIED,
    "horovod_tensorflow": COPIED,
    "horovod_keras": COPIED,
}
QUICK = {
    *("torch_ddp", "tf_mirrored", "tf_multi_worker_mirrored", "tf_central_storage", "tf_parameter_server"),
    *("tf_keras_mirrored", "horovod_torch", "horovod_tensorflow"),
}
"""Strategies of which every control is tried always; of the others all but `sum` are part of the grid."""

MENDED_BY_A_BROADCAST = (
    *("torch_sync_sgd", "torch_hook_ddp", "torch_ddp", "torch_zero", "torch_fsdp", "torch_lightning_ddp"),
    *("tf_multi_worker_mirrored", "horovod_torch", "horovod_tensorflow", "horovod_keras"),
)


def mark_of(strategy, control):
    return [] if strategy in QUICK or control == "sum" else [pytest.mark.grid]


def launch_control(strategy, control, folder, **options):
    """Run tests/controls/<strategy>.py in place of the strategy's script, under the strategy's own launcher."""
    options = SYNCHRONOUS.get(strategy, {}) | options
    config = contract_config("digits", 2, folder, record=folder / "run.json", **options)
    script = str(strategies()[strategy].relative_to(ROOT))
    command = command_for(strategy, 2, to_arguments(config), free_ports(1)[0], config.backend)
    command = [f"tests/controls/{strategy}.py" if part == script else part for part in command]
    status, output = run_command(command, **environment_for(config), LOCKSTEP_CONTROL=control)
    assert status == 0, output
    return Launched(status, output, read_record(folder / "run.json"), folder)


def test_every_strategy_that_distributes_anything_has_its_controls():
    assert set(CONTROLS) == set(strategies()) - UNDISTRIBUTED


@pytest.mark.parametrize(
    ("strategy", "control"),
    [
        pytest.param(strategy, control, marks=mark_of(strategy, control))
        for strategy, controls in CONTROLS.items()
        for control in controls
    ],
)
def test_broken_maths_is_caught(strategy, control, deviation_of, tmp_path):
    assert not deviation_of(launch_control(strategy, control, tmp_path)).follows


def test_broken_maths_is_caught_over_mpi_too(deviation_of, tmp_path):
    launched = launch_control("torch_sync_sgd", "sum", tmp_path, backend="mpi")
    assert launched.record.backend == "mpi, shared memory"
    assert not deviation_of(launched).follows


@pytest.mark.parametrize(
    "strategy",
    [pytest.param(name, marks=mark_of(name, "apart_then_broadcast")) for name in MENDED_BY_A_BROADCAST],
)
def test_workers_that_start_apart_follow_the_oracle_once_the_broadcast_has_run(strategy, deviation_of, tmp_path):
    """It has to be the broadcast that mends, or skipping it would prove nothing.

    Where one process holds all replicas there is none: MirroredStrategy copies the first replica's value when a
    variable is created, and central variables have no copies.
    """
    deviation = deviation_of(launch_control(strategy, "apart_then_broadcast", tmp_path))
    assert deviation.follows, deviation
