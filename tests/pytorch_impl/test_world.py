"""pytorch_impl/world.py: a world that can't be joined is one line, and leaving one ends the threads of Gloo.

A thread that outlives the interpreter's start of its end aborts the process.
"""

import os
import socket

import pytest

from common.declarations.arguments import to_arguments
from common.declarations.catalogue import find
from common.declarations.slurm import FIRST_PORT, PORTS
from common.launching.launch import python_for
from common.launching.processes import free_ports
from common.paths import ROOT
from tests.conftest import run_command
from tests.contract.worlds import contract_task

HEAD = """
import os, sys
sys.path.insert(0, {root!r})

def gloo_threads():
    return sum("gloo" in open(f"/proc/self/task/{{thread}}/comm").read() for thread in os.listdir("/proc/self/task"))
"""
GATHERING = """
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from pytorch_impl import world

def train():
    model = DistributedDataParallel(torch.nn.Linear(4, 2))
    model(torch.ones(3, 4)).sum().backward()
    return float(next(model.parameters()).grad.sum())

dist.init_process_group("gloo")
gathered = world.all_gather({{"rank": dist.get_rank(), "gradient": train()}})
before = gloo_threads()
world.leave()
sys.stdout.write(f"threads {{before > 0}} {{gloo_threads()}} gathered {{gathered}}\\n")
"""
TRAINING = """
from pytorch_impl import {module}
sys.argv[1:] = ["--steps", "60", "--record", {record!r}, *{options}]
{module}.main()
sys.stdout.write(f"threads left {{gloo_threads()}}\\n")
"""


def output_of(strategy, body, folder, **filled):
    """What two workers print that run a script of this body."""
    script = folder / "script.py"
    script.write_text((HEAD + body).format(root=str(ROOT), **filled), encoding="utf-8")
    torchrun = python_for(find(strategy)).parent / "torchrun"
    port = str(free_ports(1)[0])
    status, output = run_command([str(torchrun), "--nproc-per-node", "2", "--master-port", port, str(script)])
    assert status == 0, output
    return output


def test_leaving_the_world_ends_its_gloo_threads_after_every_rank_got_every_ranks_value(tmp_path):
    output = output_of("torch_ddp", GATHERING, tmp_path)
    # Three rows of four ones through two outputs: every weight's gradient is 3.
    gathered = "gathered [{'rank': 0, 'gradient': 24.0}, {'rank': 1, 'gradient': 24.0}]"
    assert output.count(f"threads True 0 {gathered}") == 2, output


@pytest.mark.parametrize(
    ("strategy", "module", "options"),
    [
        ("torch_fsdp", "fsdp", []),
        ("torch_deepspeed", "zero_engine", ["--momentum", "0.5", "--stage", "1"]),
        ("torch_deepspeed", "zero_engine", ["--momentum", "0.5", "--stage", "3"]),
    ],
    ids=["DTensor's caches", "DeepSpeed's modules", "DeepSpeed's parameters"],
)
def test_leaving_ends_the_threads_that_a_library_would_keep(strategy, module, options, tmp_path):
    filled = {"module": module, "options": options, "record": str(tmp_path / "run.json")}
    output = output_of(strategy, TRAINING, tmp_path, **filled)
    assert output.count("threads left 0") == 2, output


def test_a_port_that_is_taken_is_refused_in_one_line_by_a_rank_that_srun_started(tmp_path):
    """As the first rank of a step of two, on one host, without torchrun."""
    strategy, job = find("torch_ddp"), os.getpid() % PORTS
    step = dict.fromkeys(("SLURM_STEP_ID", "SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID"), "0")
    step |= dict.fromkeys(("SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE"), "2")
    step |= {"SLURM_JOB_ID": str(job), "SLURM_STEP_NODELIST": "localhost"}
    arguments = to_arguments(contract_task("digits", 2, tmp_path), strategy.options())
    task = ["sh", "-c", 'SLURM_TASK_PID=$$ exec "$@"', "sh", str(python_for(strategy)), strategy.script, *arguments]
    with socket.create_server(("", FIRST_PORT + 100 * job % PORTS)):
        status, output = run_command(task, **step)
    assert status == 2, output
    assert "where the ranks meet, is taken: end the program that listens there" in output
    assert "Traceback" not in output
