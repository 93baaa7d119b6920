"""A worker that dies in the middle of training ends its launch: a failed record, its log, and nobody left."""

import dataclasses
import os
import shlex
import subprocess
import sys

import psutil
import pytest

from common.contract.task import PRESETS
from common.declarations.catalogue import find
from common.launching import exit_cause
from common.launching.launch import python_for
from common.launching.planned import PlannedLaunch
from common.paths import ROOT
from pytorch_impl.strategies import TORCHRUN
from tests.launching import require_private_networks, run_and_disturb

CASES = [
    ("torch_ddp", {}),
    pytest.param("torch_sync_sgd", {"backend": "mpi"}, marks=pytest.mark.grid),
    pytest.param("torch_fsdp", {}, marks=pytest.mark.grid),
    pytest.param("torch_model_parallel", {}, marks=pytest.mark.grid),
]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_worker_that_is_killed_ends_its_launch_before_the_deadline(name, options, tmp_path):
    strategy = find(name)
    task = dataclasses.replace(PRESETS["digits"], workers=2, steps=1_000_000, deadline_seconds=120.0)
    planned = PlannedLaunch(strategy, 2, "throughput", 1, task, strategy.options(**options))
    record = run_and_disturb(planned, psutil.Process.kill, tmp_path)
    assert record.reason == "rank 1 ended with signal 9, so all processes were ended."


def test_an_abort_in_the_second_in_which_another_worker_was_killed_is_not_told_as_the_cause(tmp_path):
    script, killed = tmp_path / "die.py", tmp_path / "killed"
    script.write_text(f"""
import os, pathlib, signal
if os.environ["RANK"] == "1":
    pathlib.Path({str(killed)!r}).touch()
    os.kill(os.getpid(), signal.SIGKILL)
while not os.path.exists({str(killed)!r}):
    pass
os.abort()
""")
    command = [python_for(find("torch_ddp")).with_name("torchrun"), "--nproc-per-node", "2", script]
    log = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120).stderr
    reason = exit_cause.read(1, 60.0, log, TORCHRUN).reason
    assert reason == "rank 1 ended with signal 9, so all processes were ended."


def launched(name, *options, mount="true", **environment):
    """Exit status and standard error of a launch as `nox -s` makes it, after a command that mounts something for it."""
    require_private_networks()
    python_for(find(name))
    launch = shlex.join([sys.executable, "-m", "common.launching.launch", name, "--workers", "2", *map(str, options)])
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", f"{mount} && exec {launch}"]
    result = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, encoding="utf-8", timeout=120
    )
    return result.returncode, result.stderr


def test_a_disk_that_is_full_at_a_checkpoint_is_the_last_thing_on_the_screen_and_torchruns_page_is_in_the_log(tmp_path):
    (tmp_path / "disk").mkdir()
    record, weights = tmp_path / "run.json", tmp_path / "disk" / "weights"
    options = ["--steps", "100", "--checkpoint-steps", "25", "--checkpoint", weights, "--record", record]
    status, errors = launched("torch_ddp", *options, mount=f"mount -t tmpfs -o size=32k tmpfs {weights.parent}")
    assert status == 1
    sentence = f"rank 0: {weights} can't be written (No space left on device): free some space"
    assert errors.splitlines()[-1] == f"lockstep: failed: {sentence} (all error output: {tmp_path / 'run.log'})."
    assert errors.count("lockstep: ") == 1
    assert "ChildFailedError" not in errors
    assert "ChildFailedError" in (tmp_path / "run.log").read_text()


def test_where_open_mpi_cannot_connect_its_cause_and_a_remedy_come_last(tmp_path):
    options = ["--backend", "mpi", "--record", tmp_path / "run.json"]
    status, errors = launched("torch_sync_sgd", *options, OMPI_MCA_btl="self")
    assert status not in (0, 2)
    last = errors.splitlines()[-1]
    assert last.startswith("lockstep: failed: The launcher gave up (At least one pair of MPI processes are unable to ")
    assert "such as OMPI_MCA_btl" in last
