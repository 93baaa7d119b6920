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
from tests.launching import output_of

PROGRAM = """
import importlib, os, sys

def gloo_threads():
    return sum("gloo" in open(f"/proc/self/task/{thread}/comm").read() for thread in os.listdir("/proc/self/task"))

def leave_and_tell():
    before = gloo_threads()
    leave()
    sys.stdout.write(f"threads {before > 0} {gloo_threads()}\\n")

script = importlib.import_module(sys.argv.pop(1))
leave, script.leave = script.leave, leave_and_tell
script.main()
"""


@pytest.mark.parametrize(
    ("strategy", "module", "options"),
    [
        ("torch_ddp", "ddp", []),
        ("torch_fsdp", "fsdp", []),
        ("torch_deepspeed", "zero_engine", ["--momentum", "0.5", "--stage", "1"]),
        ("torch_deepspeed", "zero_engine", ["--momentum", "0.5", "--stage", "3"]),
    ],
    ids=["its own", "DTensor's caches", "DeepSpeed's modules", "DeepSpeed's parameters"],
)
def test_leaving_the_world_ends_its_gloo_threads_also_those_that_a_library_would_keep(
    strategy, module, options, tmp_path
):
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    world = ["--nproc-per-node", "2", "--master-port", str(free_ports(1)[0])]
    words = [str(tmp_path / "program.py"), f"pytorch_impl.{module}", "--steps", "60", *options]
    record = ["--record", str(tmp_path / "run.json")]
    output = output_of(strategy, "torchrun", *world, *words, *record, PYTHONPATH=str(ROOT))
    assert output.count("threads True 0") == 2, output


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
