"""JAX's processes, as users or schedulers start them: they train, and they end, whatever happens."""

import dataclasses
import os
import subprocess

import psutil
import pytest

from common.declarations.arguments import to_arguments
from common.declarations.catalogue import find
from common.launching.launch import python_for
from common.launching.planned import PlannedLaunch
from common.launching.processes import free_ports
from common.paths import ROOT
from tests.contract.worlds import contract_task
from tests.launching import assert_record_follows, end_all, run_and_disturb

DATA_PARALLEL = "jax_data_parallel"


def start(task, ranks):
    """The processes of these ranks, of two, as a scheduler would start them."""
    world = {"GLOO_SOCKET_IFNAME": "lo", "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{free_ports(1)[0]}"}
    script = [str(python_for(find(DATA_PARALLEL))), find(DATA_PARALLEL).script]
    command = [*script, *to_arguments(task, find(DATA_PARALLEL).options())]
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "encoding": "utf-8"}
    return {
        rank: subprocess.Popen(
            command, cwd=ROOT, env=os.environ | world | {"LOCKSTEP_JAX_PROCESS": f"{rank},2,{rank},2"}, **output
        )
        for rank in ranks
    }


def test_processes_that_somebody_else_starts_follow_the_oracle(tmp_path):
    task = dataclasses.replace(contract_task("digits", 2, tmp_path), record=tmp_path / "run.json")
    statuses, outputs = end_all(start(task, (0, 1)), 120)
    assert set(statuses.values()) == {0}, outputs
    record = assert_record_follows(tmp_path)
    assert (record.world_size, record.backend) == (2, "gloo")


@pytest.mark.grid
@pytest.mark.parametrize("missing", [0, 1])
def test_a_worker_that_never_starts_ends_the_other_by_its_deadline(missing, tmp_path):
    task = dataclasses.replace(contract_task("digits", 2, tmp_path), deadline_seconds=12.0)
    statuses, outputs = end_all(start(task, (1 - missing,)), 40)
    assert 0 not in statuses.values(), outputs
    [line] = [line for line in outputs[1 - missing].splitlines() if line.startswith("lockstep: failed: ")]
    assert f"rank {missing} didn't start within the deadline of 12 s" in line


@pytest.mark.grid
def test_a_worker_that_dies_takes_the_other_with_it_that_someone_else_started(tmp_path):
    task = contract_task("digits", 2, tmp_path, steps=1_000_000)
    processes = start(task, (0, 1))
    assert any(line.startswith("step ") for line in processes[0].stdout)
    processes[1].kill()
    statuses, outputs = end_all(processes, 30)
    assert statuses[0] == 1
    assert "lockstep: failed: rank 0 lost another worker (" in outputs[0]


@pytest.mark.grid
@pytest.mark.parametrize(
    ("disturb", "rank", "reason"),
    [
        (psutil.Process.kill, 1, "worker 1 ended with signal 9, so all processes were ended."),
        (psutil.Process.suspend, 0, "rank 0 stopped answering, so all processes were ended."),
        (psutil.Process.suspend, 1, "rank 1 stopped answering, so all processes were ended."),
    ],
)
def test_a_worker_that_is_lost_ends_its_launch_before_the_deadline(disturb, rank, reason, tmp_path):
    strategy = find(DATA_PARALLEL)
    task = dataclasses.replace(contract_task("digits", 2, tmp_path, steps=1_000_000), deadline_seconds=60.0)
    planned = PlannedLaunch(strategy, 2, "throughput", 1, task, strategy.options())
    assert run_and_disturb(planned, disturb, tmp_path, rank).reason == reason
