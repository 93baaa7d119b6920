"""The checks must be able to fail: broken maths, put into the real strategies, is caught every time."""

import ast
import dataclasses
from pathlib import Path

import numpy as np
import pytest

from common.catalogue import ROOT, strategies
from common.contract.checkpoint import Checkpoint, write_checkpoint
from common.contract.oracle import run_oracle
from common.contract.task import to_arguments
from common.launch import command_for, environment_for
from common.measurement.record import read_record
from common.processes import free_ports
from tests.conftest import Launched, run_command
from tests.contract.worlds import contract_task, has_copies, largest_worlds, synchronous
from tests.controls.generic import controls_of

OWN = ROOT / "tests" / "controls"


def own_controls(name):
    """What the strategy's own control script can break, read without importing its framework."""
    script = OWN / f"{name}.py"
    if not script.exists():
        return ()
    assigned = [node for node in ast.parse(script.read_text()).body if isinstance(node, ast.Assign)]
    [controls] = [ast.literal_eval(node.value) for node in assigned if node.targets[0].id == "CONTROLS"]
    return controls


def mark_of(name, control):
    """None for what is tried always, else that of the grid.

    Always tried are `sum` with every strategy, every control of the quick profile's, and of those whose effect is the
    same everywhere one with each base.
    """
    strategy = strategies()[name]
    if control in ("other_rows", "other_weights", "lost_momentum"):
        return [] if strategy.base is None else [pytest.mark.grid]
    return [] if strategy.quick or control == "sum" else [pytest.mark.grid]


def leave_checkpoint(task):
    """Save what the oracle has after 60 of the task's steps where a launch of the task goes on from it."""
    state = {name: value.astype(np.float32) for name, value in run_oracle(task, task.batch, 60).state.items()}
    write_checkpoint(task.checkpoint, Checkpoint(state, 60, task.batch), task)


def launch_control(name, workers, control, folder, script="", **options):
    """Run a control script in place of the strategy's own, under the strategy's own launcher.

    The deviation is to be taken from the task that is returned: some controls change what the record says of it.
    """
    strategy = strategies()[name]
    options = synchronous(strategy, **options)
    task = contract_task("digits", workers, folder, record=folder / "run.json")
    if control == "lost_momentum":
        # Without kinks, which momentum would bring: what is caught must be the loss of it.
        task = dataclasses.replace(task, momentum=0.5, activation="tanh")
        leave_checkpoint(task)
    command = command_for(strategy, workers, to_arguments(task, options), free_ports(1)[0], options)
    command = [(script or "tests/controls/generic.py") if part == strategy.script else part for part in command]
    settings = environment_for(strategy, task) | {"LOCKSTEP_CONTROL": control, "LOCKSTEP_SCRIPT": strategy.script}
    status, output = run_command(command, **settings)
    assert status == 0, output
    return Launched(status, output, read_record(folder / "run.json"), folder), task


def test_every_control_script_belongs_to_a_strategy():
    shared = {"generic", "several", "broken_torch", "broken_tensorflow"}
    assert {path.stem for path in OWN.glob("*.py")} <= set(strategies()) | shared


@pytest.mark.parametrize(
    ("strategy", "workers", "control"),
    [
        pytest.param(*world, control, marks=mark_of(world[0], control))
        for world in largest_worlds("digits")
        for control in controls_of(strategies()[world[0]])
    ],
)
def test_what_common_hands_out_is_caught_when_it_is_broken(strategy, workers, control, deviation_of, tmp_path):
    assert not deviation_of(*launch_control(strategy, workers, control, tmp_path)).follows


@pytest.mark.parametrize(
    ("strategy", "control"),
    [
        pytest.param(name, control, marks=mark_of(name, control))
        for name in strategies()
        for control in own_controls(name)
    ],
)
def test_a_broken_exchange_is_caught(strategy, control, deviation_of, tmp_path):
    script = str(Path("tests", "controls", f"{strategy}.py"))
    assert not deviation_of(*launch_control(strategy, 2, control, tmp_path, script)).follows


def test_a_broken_exchange_is_caught_over_mpi_too(deviation_of, tmp_path):
    script = "tests/controls/torch_sync_sgd.py"
    launched, task = launch_control("torch_sync_sgd", 2, "sum", tmp_path, script, backend="mpi")
    assert launched.record.backend == "mpi, shared memory"
    assert not deviation_of(launched, task).follows


@pytest.mark.parametrize(
    "strategy",
    [
        pytest.param(name, marks=mark_of(name, "apart_then_broadcast"))
        for name, workers in largest_worlds("digits")
        if has_copies(name)
    ],
)
def test_workers_that_start_apart_follow_the_oracle_once_the_broadcast_has_run(strategy, deviation_of, tmp_path):
    """It has to be the broadcast that mends, or skipping it would prove nothing."""
    deviation = deviation_of(*launch_control(strategy, 2, "apart_then_broadcast", tmp_path))
    assert deviation.follows, deviation
