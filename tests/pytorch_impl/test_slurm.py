"""A strategy of torch whose ranks srun starts, without torchrun: by the variables that it gives each task."""

import os
import socket

from common.declarations.arguments import to_arguments
from common.declarations.catalogue import find
from common.declarations.slurm import FIRST_PORT, PORTS
from common.launching.launch import python_for
from tests.conftest import run_command
from tests.contract.worlds import contract_task
from tests.launching import as_task_of_slurm


def test_a_taken_port_and_a_batch_script_are_refused_in_one_line(tmp_path):
    """As the first rank of a step of two, on one host."""
    strategy, job = find("torch_ddp"), os.getpid() % PORTS
    step = {
        **{"SLURM_JOB_ID": str(job), "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_NODEID": "0"},
        **{"SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_STEP_NODELIST": "localhost"},
        **{"SLURM_PROCID": "0", "SLURM_LOCALID": "0"},
    }
    task = contract_task("digits", 2, tmp_path)
    command = [str(python_for(strategy)), strategy.script, *to_arguments(task, strategy.options())]
    with socket.create_server(("", FIRST_PORT + 100 * job % PORTS)):
        status, output = run_command(as_task_of_slurm(command), **step)
    assert status == 2, output
    assert "where the ranks meet, is taken: end the program that listens there" in output
    assert "Traceback" not in output
    status, output = run_command(command, **step)
    assert status == 2, output
    assert "torch_ddp is started by torchrun: torchrun --nproc-per-node N pytorch_impl/ddp.py" in output
