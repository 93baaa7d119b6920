"""common/launching/busy_launch.py: the strategy's own command line, but for what runs its script."""

import sys

import pytest

from common.contract.task import Task
from common.declarations.strategy import Launcher
from common.launching import busy_launch, launch
from common.launching.processes import Outcome
from common.paths import ROOT

THREADRUN = Launcher(
    name="threadrun",
    command=lambda launch: ["threadrun", "-np", str(launch.workers), str(launch.python), *launch.script],
)


def test_a_module_that_exists_runs_the_script_which_keeps_its_options(declare, monkeypatch):
    strategy, started = declare(launcher=THREADRUN), []

    def prepared(arguments):
        return strategy, Task(), launch.command_for(strategy, 2, arguments, 0, strategy.options())

    def run(commands, environment, deadline_seconds):
        started.extend(commands)
        return Outcome(0)

    monkeypatch.setattr(launch, "prepare", prepared)
    monkeypatch.setattr(launch, "run_group", run)
    for name in ("_enter_private_network", "exit_on_signals"):
        monkeypatch.setattr(launch, name, lambda: None)
    monkeypatch.setattr(sys, "argv", ["launch.py", "--steps", "60"])
    with pytest.raises(SystemExit) as ended:
        busy_launch.main()
    assert ended.value.code == 0
    module = "common.measurement.busy"
    python = str(launch.python_for(strategy))
    assert started == [["threadrun", "-np", "2", python, "-m", module, strategy.script, "--steps", "60"]]
    assert ROOT.joinpath(*module.split(".")).with_suffix(".py").is_file()
