"""common/launching/places/slurm_node.py: what launches are told, and why a step went wrong.

How srun is started is in hosts/slurm_commands.txt.
"""

import os
import subprocess
from unittest.mock import MagicMock, Mock, call

import pytest

from common.declarations.slurm import srun as step
from common.launching.places import place
from common.launching.places.place import LOST_STATUS
from common.launching.places.slurm_node import SlurmNode, leave_step
from common.paths import ROOT

TASK = {"SLURM_TASK_PID": "1", "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0", "SLURM_CPUS_PER_TASK": "1"}
NODE = SlurmNode("node7", slots=2, cores=4)
REMOTE_SHELL = ROOT / "common/launching/places/remote_shell/ssh"


def test_launches_are_told_of_the_allocation_and_not_of_the_task_that_started_them(monkeypatch):
    for name in ("SLURM_TASK_PID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS", "SLURM_CPU_BIND_TYPE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "node[7-8]")
    variables = NODE.variables()
    slurms = {name for name in variables if name.startswith("SLURM") and name != "SLURM_CONF"}
    assert slurms == {"SLURM_JOB_NODELIST", "SLURM_CPUS_PER_TASK", "SLURM_OVERLAP"}
    assert variables["SLURM_CPUS_PER_TASK"] == "4"
    assert variables["PATH"].split(os.pathsep)[0] == str(REMOTE_SHELL.parent)


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        ("slurmstepd: error: *** JOB 7 ON node7 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***", "time limit"),
        ("slurmstepd-node7: error: *** STEP 7.0 ON node7 CANCELLED AT 2026-01-01T00:00:00 ***", "scancel"),
        ("srun: error: Node failure on node7", "a node of the job has failed"),
        ("slurmstepd: error: *** JOB 7 ON node8 CANCELLED AT 2026 DUE TO NODE FAILURE, SEE LOG ***", "has failed"),
        ("srun: error: Unable to create step for job 7: Requested nodes are busy", "(Requested nodes are busy)"),
        ("srun: error: Unable to confirm allocation for job 9: Invalid job id specified", "(Invalid job id specified)"),
    ],
)
def test_a_step_that_slurm_ended_or_never_started_means_that_the_node_was_lost(printed, words):
    lost = NODE.why_it_was_lost(1, f"{printed}\nsrun: error: node7: task 0: Killed\n")
    assert str(lost).startswith("node7 ")
    assert words in lost
    assert NODE.why_it_failed(1, printed) == lost


def test_what_ended_by_itself_was_not_lost():
    assert "node7 was lost" in str(NODE.why_it_was_lost(LOST_STATUS, ""))
    assert NODE.why_it_was_lost(7, "srun: error: node7: task 0: Exited with exit code 7\n") is None
    without_python = "slurmstepd-node7: error: execve(): /a/python: No such file or directory"
    assert "node7 has no /" in NODE.why_it_failed(2, without_python)
    elsewhere = "slurmstepd-node7: error: couldn't chdir to `/a': No such file or directory: going to /tmp"
    assert "no checkout in" in NODE.why_it_failed(2, elsewhere)


@pytest.mark.parametrize(
    ("ends", "signals"), [([0], ["terminate"]), (subprocess.TimeoutExpired("srun", 5), ["terminate", "kill"])]
)
def test_srun_is_asked_to_leave_with_its_step_and_is_killed_only_where_it_stays(ends, signals):
    process = MagicMock(**{"wait.side_effect": ends})
    NODE.end(process)
    assert [name for name, *_ in process.method_calls if name != "wait"] == signals


@pytest.fixture
def srun(tmp_path, monkeypatch):
    """A program named srun, which runs what follows its options as a task of a step, and notes its command line."""
    path, noted = tmp_path / "srun", tmp_path / "noted"
    path.write_text(
        f'#!/bin/bash\necho "$*" > {noted}\nwhile [[ $1 == --* ]]; do shift; done\n'
        'SLURM_TASK_PID=$$ SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 exec "$@"\n'
    )
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return noted


@pytest.mark.parametrize(
    ("process", "left", "cores"),
    [
        pytest.param(os.getpid(), {"SEEN"}, [call(0, [min(os.sched_getaffinity(0))])], id="srun started it"),
        pytest.param(os.getppid(), {"SEEN", *TASK}, [], id="somebody else started it"),
    ],
)
def test_an_agent_that_srun_started_is_no_task_any_more_and_keeps_to_its_cores(process, left, cores, monkeypatch):
    variables = TASK | {"SLURM_TASK_PID": str(process), "SEEN": "yes"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    bind = Mock()
    monkeypatch.setattr(os, "sched_setaffinity", bind)
    leave_step()
    assert (variables.keys() & os.environ.keys(), bind.call_args_list) == (left, cores)


def test_an_agent_is_asked_through_srun_as_through_ssh(srun):
    [answer] = place.ask("sweep", {NODE: {"launch": "nobody"}})
    assert (answer.failure, answer.values) == (None, {"ended": 0})
    assert "--nodelist=node7" in srun.read_text()


def test_srun_stands_in_for_ssh_with_its_input_and_without_a_task(srun):
    options = ("-o", "BatchMode=yes"), ("-o", "ConnectTimeout=10")
    command = [str(REMOTE_SHELL), *options[0], "node8", *options[1], "read x; echo $x,$SLURM_TASK_PID"]
    environment = os.environ | {"SLURM_CPUS_PER_TASK": "3"}
    result = subprocess.run(command, input="key\n", env=environment, capture_output=True, text=True, check=True)
    assert result.stdout == "key,\n"
    assert {*step(["node8"])[1:], "--cpus-per-task=3"} < {*srun.read_text().split()}
