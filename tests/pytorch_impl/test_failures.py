"""A worker that dies in the middle of training ends its launch: a failed record, its log, and nobody left."""

import dataclasses

import psutil
import pytest

from common.contract.task import PRESETS
from common.declarations.catalogue import find
from common.launching.planned import PlannedLaunch
from tests.launching import run_and_disturb


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
