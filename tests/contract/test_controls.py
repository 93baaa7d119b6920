"""The checks must be able to fail: broken maths, put into the real strategies, is caught every time."""

import pytest

from common.config import to_arguments
from common.launch import command_for, environment_for, strategies
from common.record import read_record
from tests.conftest import Launched, run_command
from tests.contract.test_contract import SYNCHRONOUS, contract_config

CONTROLLED = ("torch_ddp", "tf_mirrored", "tf_multi_worker_mirrored", "tf_central_storage", "tf_parameter_server")
CONTROLLED += ("tf_keras_mirrored", "horovod_torch")
CONTROLS = ("sum", "unsharded", "scaled_rate", "skipped_broadcast", "float16")
WITHOUT_COPIES = ("tf_central_storage", "tf_parameter_server")
"""Their variables are in one place, so there are no copies that could start apart."""


def launch_control(strategy, control, folder):
    """Run tests/controls/<strategy>.py in place of the strategy's script, under the strategy's own launcher."""
    config = contract_config("digits", 2, folder, **SYNCHRONOUS.get(strategy, {}), record=folder / "run.json")
    script = str(strategies()[strategy].relative_to(strategies()[strategy].parent.parent))
    command = command_for(strategy, 2, to_arguments(config), port=29400)
    command = [f"tests/controls/{strategy}.py" if part == script else part for part in command]
    status, output = run_command(command, **environment_for(config), LOCKSTEP_CONTROL=control)
    assert status == 0, output
    return Launched(status, output, read_record(folder / "run.json"), folder)


@pytest.mark.parametrize(
    ("strategy", "control"),
    [
        (strategy, control)
        for strategy in CONTROLLED
        for control in CONTROLS
        if control != "skipped_broadcast" or strategy not in WITHOUT_COPIES
    ],
)
def test_broken_maths_is_caught(strategy, control, deviation_of, tmp_path):
    assert not deviation_of(launch_control(strategy, control, tmp_path)).follows


@pytest.mark.parametrize("strategy", ["torch_ddp", "tf_multi_worker_mirrored", "horovod_torch"])
def test_workers_that_start_apart_follow_the_oracle_once_the_broadcast_has_run(strategy, deviation_of, tmp_path):
    """It has to be the broadcast that mends, or skipping it would prove nothing.

    Where one process holds all replicas there is none: MirroredStrategy copies the first replica's value when a
    variable is created, and central variables have no copies.
    """
    deviation = deviation_of(launch_control(strategy, "apart_then_broadcast", tmp_path))
    assert deviation.follows, deviation
