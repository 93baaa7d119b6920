"""A worker that dies in the middle of training ends its launch: a failed record, its log, and nobody left."""

import dataclasses
import os
import subprocess
import sys

import psutil
import pytest

from common.contract.task import PRESETS
from common.declarations.catalogue import find
from common.launching.launch import python_for
from common.launching.planned import PlannedLaunch
from common.paths import ROOT
from tests.launching import require_private_networks, run_and_disturb


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("torch_ddp", {}),
        pytest.param("torch_sync_sgd", {"backend": "mpi"}, marks=pytest.mark.grid),
        pytest.param("torch_fsdp", {}, marks=pytest.mark.grid),
        pytest.param("torch_model_parallel", {}, marks=pytest.mark.grid),
    ],
)
def test_a_worker_that_is_killed_ends_its_launch_before_the_deadline(name, options, tmp_path):
    strategy = find(name)
    task = dataclasses.replace(PRESETS["digits"], workers=2, steps=1_000_000, deadline_seconds=120.0)
    planned = PlannedLaunch(strategy, 2, "throughput", 1, task, strategy.options(**options))
    record = run_and_disturb(planned, psutil.Process.kill, tmp_path)
    assert record.reason == "rank 1 ended with signal 9, so all processes were ended."


@pytest.mark.grid
def test_a_disk_that_is_full_at_a_checkpoint_is_the_last_thing_on_the_screen_and_torchruns_page_is_in_the_log(tmp_path):
    require_private_networks()
    python_for(find("torch_ddp"))
    disk, record = tmp_path / "disk", tmp_path / "run.json"
    disk.mkdir()
    launch = [sys.executable, "-m", "common.launching.launch", "torch_ddp", "--workers", "2", "--record", str(record)]
    launch += ["--steps", "100", "--checkpoint-steps", "25", "--checkpoint", str(disk / "weights")]
    mount = f'mount -t tmpfs -o size=32k tmpfs {disk} && exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount, "sh", *launch]
    ended = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, encoding="utf-8", timeout=120)
    assert ended.returncode == 1
    sentence = f"rank 0: {disk / 'weights'} can't be written (No space left on device): free some space"
    last = ended.stderr.splitlines()[-1]
    assert last == f"lockstep: failed: {sentence} (all error output: {record.with_suffix('.log')})."
    assert ended.stderr.count("lockstep: ") == 1
    assert "ChildFailedError" not in ended.stderr
    assert "ChildFailedError" in record.with_suffix(".log").read_text()
