"""A worker that dies in the middle of training ends its launch: a failed record, its log, and nobody left."""

import dataclasses
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from common import compare
from common.catalogue import find
from common.contract.task import PRESETS
from common.measurement.record import read_records
from common.plan import PlannedLaunch

DEADLINE_SECONDS = 120.0
CASES = [
    ("torch_ddp", {}),
    ("torch_sync_sgd", {"backend": "mpi"}),
    pytest.param("torch_fsdp", {}, marks=pytest.mark.grid),
    pytest.param("torch_model_parallel", {}, marks=pytest.mark.grid),
]


def wait_until_it_trains(log):
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        # The first line tells of the first step alone.
        if log.exists() and log.read_text().count("\nstep ") > 1:
            return
        time.sleep(0.1)
    raise AssertionError("It never trained.")


def is_worker(process, strategy):
    return strategy.script in process.cmdline()[1:3]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_worker_that_is_killed_ends_its_launch_before_the_deadline(name, options, tmp_path):
    strategy = find(name)
    endless = {"workers": 2, "steps": 1_000_000, "deadline_seconds": DEADLINE_SECONDS}
    task = dataclasses.replace(PRESETS["digits"], **endless)
    planned = PlannedLaunch(strategy, 2, "throughput", 1, task, strategy.options(**options))
    log = tmp_path / f"{planned.name}.log"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(compare.run_planned, planned, tmp_path)
        wait_until_it_trains(log)
        processes = psutil.Process().children(recursive=True)
        workers = [process for process in processes if is_worker(process, strategy)]
        assert len(workers) == 2
        workers[1].kill()
        record = running.result()
    assert (record.status, record.world_size) == ("failed", 2)
    assert "deadline" not in record.reason
    assert list(read_records(tmp_path).values()) == [record]
    assert tmp_path / record.log == log
    assert not any(process.is_running() for process in processes)
