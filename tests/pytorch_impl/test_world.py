"""Leaving the world ends Gloo's threads: one that outlives the interpreter's start of its end aborts the process."""

import pytest

from common.declarations.catalogue import find
from common.launching.launch import python_for
from common.launching.processes import free_ports
from common.paths import ROOT
from tests.conftest import run_command

SCRIPT = """
import os, sys
sys.path.insert(0, {root!r})
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from pytorch_impl import world

def train():
    model = DistributedDataParallel(torch.nn.Linear(4, 2))
    model(torch.ones(3, 4)).sum().backward()
    return float(next(model.parameters()).grad.sum())

def gloo_threads():
    return sum("gloo" in open(f"/proc/self/task/{{thread}}/comm").read() for thread in os.listdir("/proc/self/task"))

dist.init_process_group("gloo")
gathered = world.all_gather({{"rank": dist.get_rank(), "gradient": train()}})
before = gloo_threads()
world.leave()
sys.stdout.write(f"threads {{before}} {{gloo_threads()}} gathered {{gathered}}\\n")
"""


def run_world(script):
    torchrun = python_for(find("torch_ddp")).parent / "torchrun"
    port = str(free_ports(1)[0])
    return run_command([str(torchrun), "--nproc-per-node", "2", "--master-port", port, str(script)])


@pytest.fixture(scope="module")
def left(tmp_path_factory):
    """What two workers print that join a world, train, gather and leave."""
    script = tmp_path_factory.mktemp("world") / "script.py"
    script.write_text(SCRIPT.format(root=str(ROOT)), encoding="utf-8")
    status, output = run_world(script)
    assert status == 0, output
    return output


def test_leaving_the_world_ends_its_gloo_threads_after_every_rank_got_every_ranks_value(left):
    lines = [line.split() for line in left.splitlines() if line.startswith("threads")]
    assert [int(line[1]) > 0 and int(line[2]) == 0 for line in lines] == [True, True], left
    # Three rows of four ones through two outputs: every weight's gradient is 3.
    expected = "gathered [{'rank': 0, 'gradient': 24.0}, {'rank': 1, 'gradient': 24.0}]"
    assert left.count(expected) == 2, left


FSDP_SCRIPT = """
import os, sys
sys.path.insert(0, {root!r})
from pytorch_impl import fsdp
sys.argv[1:] = ["--steps", "60", "--record", {record!r}]
fsdp.main()
names = [open(f"/proc/self/task/{{thread}}/comm").read() for thread in os.listdir("/proc/self/task")]
sys.stdout.write(f"threads left {{sum('gloo' in name for name in names)}}\\n")
"""


def test_leaving_after_fsdp_ends_the_threads_that_dtensors_caches_would_keep(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(FSDP_SCRIPT.format(root=str(ROOT), record=str(tmp_path / "run.json")), encoding="utf-8")
    status, output = run_world(script)
    assert status == 0, output
    assert output.count("threads left 0") == 2, output
