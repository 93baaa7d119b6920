"""With --check-replicas a run ends like any other while its replicas are equal, and stops at the first that isn't."""

import re

import pytest

from common.catalogue import strategies
from common.contract.task import to_arguments
from common.launch import command_for, environment_for
from common.processes import free_ports
from common.strategy import SHARDING_OF, ReplicaOptions
from tests.conftest import run_command
from tests.contract.test_contract import assert_follows
from tests.contract.test_controls import mark_of, own_controls
from tests.contract.worlds import contract_task

CHECKED = [name for name, strategy in strategies().items() if issubclass(strategy.options, ReplicaOptions)]

# A control, other than a strategy's script, leaves the error its traceback. A cluster's processes are started again
# with this script's arguments, so that what it runs has to be in the environment.
SCRIPT = """
import importlib
import os
import sys

sys.path.insert(0, os.getcwd())

from common.errors import exit_with_one_line

exit_with_one_line(lambda: importlib.import_module(os.environ["LOCKSTEP_CONTROL_MODULE"]))
"""


def stay_apart(name):
    """Whether replicas that start apart are still apart after a step.

    Where each parameter has an owner, which sends it to all others after the update, they are alike by then.
    """
    return "skipped_broadcast" in own_controls(name) and SHARDING_OF not in strategies()[name].compared_with


def checked_task(folder, **overrides):
    return contract_task("digits", 2, folder, steps=60, **overrides)


@pytest.mark.parametrize("strategy", [pytest.param(name, marks=mark_of(name, "equal")) for name in CHECKED])
def test_a_strategy_whose_replicas_are_compared_follows_the_oracle(strategy, launch, deviation_of, tmp_path):
    """With momentum, of which each replica has its own as well, or only a part."""
    launched = launch(strategy, checked_task(tmp_path, momentum=0.5), check_replicas=True)
    assert_follows(launched, deviation_of(launched))


@pytest.mark.grid
@pytest.mark.parametrize(
    "strategy", [name for name in CHECKED if hasattr(strategies()[name].options, "steps_per_call")]
)
def test_replicas_are_compared_after_calls_of_several_steps(strategy, launch, deviation_of, tmp_path):
    launched = launch(strategy, checked_task(tmp_path), check_replicas=True, steps_per_call=7)
    assert_follows(launched, deviation_of(launched))


@pytest.mark.parametrize(
    "strategy",
    [pytest.param(name, marks=mark_of(name, "apart")) for name in CHECKED if stay_apart(name)],
)
def test_replicas_that_start_apart_stop_the_run_after_its_first_step(strategy, tmp_path):
    declared = strategies()[strategy]
    task, options = checked_task(tmp_path, record=tmp_path / "run.json"), declared.options(check_replicas=True)
    starter = tmp_path / "start_control.py"
    starter.write_text(SCRIPT)
    command = command_for(declared, 2, to_arguments(task, options), free_ports(1)[0], options)
    environment = environment_for(declared, task) | {
        "LOCKSTEP_CONTROL": "skipped_broadcast",
        "LOCKSTEP_CONTROL_MODULE": f"tests.controls.{strategy}",
    }
    status, output = run_command([str(starter) if part == declared.script else part for part in command], **environment)
    assert status != 0
    # Each process says it, and the lines of two may run into one another.
    said = re.findall(r"lockstep: failed: After step \d+ the parameter \S+ of rank \d+ differs from rank 0's", output)
    assert set(said) == {
        "lockstep: failed: After step 0 the parameter layer0.weight of rank 1 differs from rank 0's"
    }, output
    assert "LaunchFailedError" not in output
    assert list(tmp_path.iterdir()) == [starter]
