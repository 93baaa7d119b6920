"""pytorch_impl/zero_engine.py: what DeepSpeed would keep for ever is gone when the world is left."""

import pytest

from common.declarations.catalogue import find
from common.launching.launch import python_for
from common.launching.processes import free_ports
from common.paths import ROOT
from tests.conftest import run_command

SCRIPT = """
import os, sys
sys.path.insert(0, {root!r})
from pytorch_impl import zero_engine
sys.argv[1:] = ["--steps", "60", "--momentum", "0.5", "--stage", "{stage}", "--record", {record!r}]
zero_engine.main()
names = [open(f"/proc/self/task/{{thread}}/comm").read() for thread in os.listdir("/proc/self/task")]
sys.stdout.write(f"threads left {{sum('gloo' in name for name in names)}}\\n")
"""


@pytest.mark.parametrize("stage", [1, 3])
def test_leaving_ends_the_threads_that_deepspeeds_modules_would_keep(stage, tmp_path):
    script = tmp_path / "script.py"
    record = str(tmp_path / "run.json")
    script.write_text(SCRIPT.format(root=str(ROOT), stage=stage, record=record), encoding="utf-8")
    torchrun = python_for(find("torch_deepspeed")).parent / "torchrun"
    port = str(free_ports(1)[0])
    status, output = run_command([str(torchrun), "--nproc-per-node", "2", "--master-port", port, str(script)])
    assert status == 0, output
    assert output.count("threads left 0") == 2, output
