"""A strategy of torch whose ranks srun starts, without torchrun: by the variables that it gives each task."""

import dataclasses
import os
import socket
import subprocess

import pytest

from common.declarations.arguments import to_arguments
from common.declarations.catalogue import find
from common.declarations.slurm import FIRST_PORT, PORTS
from common.launching.launch import python_for
from common.paths import ROOT
from tests.contract.worlds import contract_task
from tests.launching import as_task_of_slurm, assert_record_follows

DDP = "torch_ddp"


def start(rank: int, task, job: int, started_by=as_task_of_slurm) -> subprocess.Popen:
    """A rank of a step of two, on one host."""
    step = {
        **{"SLURM_JOB_ID": str(job), "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NODEID": "0"},
        **{"SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_STEP_NODELIST": "localhost"},
        **{"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)},
    }
    command = [str(python_for(find(DDP))), find(DDP).script, *to_arguments(task, find(DDP).options())]
    return subprocess.Popen(
        started_by(command),
        cwd=ROOT,
        env=os.environ | step,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )


@pytest.mark.grid
def test_ranks_that_srun_starts_follow_the_oracle(tmp_path):
    task = dataclasses.replace(contract_task("digits", 2, tmp_path), record=tmp_path / "run.json")
    processes = [start(rank, task, job=os.getpid() % PORTS) for rank in range(2)]
    outputs = [process.communicate(timeout=90)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert_record_follows(tmp_path)


def test_a_taken_port_and_a_batch_script_are_refused_in_one_line(tmp_path):
    job = os.getpid() % PORTS
    with socket.create_server(("", FIRST_PORT + 100 * job % PORTS)):
        process = start(0, contract_task("digits", 2, tmp_path), job)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 2, output
    assert "where the ranks meet, is taken: end the program that listens there" in output
    assert "Traceback" not in output
    process = start(0, contract_task("digits", 2, tmp_path), job=1, started_by=list)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 2, output
    assert "torch_ddp is started by torchrun: torchrun --nproc-per-node N pytorch_impl/ddp.py" in output
