"""What several tests do with launches: start them, hold them to the oracle, wait until they train or end."""

import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from common.contract.rows import global_batch
from common.declarations.arguments import parse_command_line
from common.declarations.catalogue import find
from common.declarations.strategy import Strategy
from common.launching import executor
from common.launching.launch import python_for
from common.launching.planned import PlannedLaunch
from common.measurement.record import declared
from common.records import certificate
from common.records.certificate import FOLLOWS, Certificate
from common.records.files import from_json, read_record, read_records, write_record
from common.records.training import Record, Window
from tests.conftest import Launched, run_command


def output_of(strategy: str, program: str, *arguments: str, **options: Any) -> str:
    """What a program of the strategy's environment prints that ends well; `options` are those of `run_command`."""
    status, output = run_command([str(python_for(find(strategy)).with_name(program)), *arguments], **options)
    assert status == 0, output
    return output


def assert_follows(launched: Launched, comparison: Certificate) -> None:
    """Fail with what the launch printed, or with what it computed otherwise."""
    assert launched.status == 0, launched.output
    assert (comparison.verdict, comparison.note.partition("its workers changed")[0]) == (FOLLOWS, "")


def assert_record_follows(folder: Path, name: str = "run") -> Record:
    """The record of a launch by hand, whose evidence lies beside it; fails with what it computed otherwise."""
    record = read_record(folder / f"{name}.json", Record)
    [comparison] = certificate.compare({name: record}, folder)
    assert (comparison.verdict, comparison.note) == (FOLLOWS, "")
    return record


def require_private_networks() -> None:
    """Skip the test where the system lets nobody make what a launch's bytes are counted in."""
    command = ["unshare", "--user", "--map-root-user", "--net", "true"]
    if not shutil.which("unshare") or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("No private networks: the system doesn't let this user make network namespaces")


def wait_for(condition: Callable[[], Any], seconds: float = 90) -> Any:
    """What `condition` returns once that is true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError("It never came.")


def wait_for_steps(lines: Iterable[str], count: int = 2) -> None:
    """Return when so many lines have told of a step, of which the first tells of the first step alone."""
    read, steps = [], 0
    for line in lines:
        read.append(line)
        steps += "step " in line
        if steps == count:
            return
    raise AssertionError(f"It never trained:\n{''.join(read)}")


def left_by(launch: PlannedLaunch, seconds_per_step: float = 0.1, **fields: object) -> Record:
    """The record of a launch that ended well, in which each rank clocked a window of ten steps that took so long."""
    known = declared(launch.strategy, launch.task, launch.options, launch.workers)
    windows = [Window(rank=rank, step=10, steps=10, seconds=10 * seconds_per_step) for rank in range(launch.workers)]
    known |= {"status": "ok", "started_at": "2026-01-01T00:00:00.000+00:00", "windows": windows}
    known["examples_per_step"] = global_batch(launch.task, launch.strategy.work, launch.workers)
    return from_json(known | fields, Record)


def made_up(strategy: Strategy) -> Callable[..., int]:
    """What takes the place of `executor.start`: a launch that writes its log, record and weights at once."""

    def start(arguments: list[str], root: Path, log_path: Path, deadline_seconds: float, variables: object) -> int:
        task, options = parse_command_line(strategy, "help", arguments[3:])
        log_path.write_text("trained", encoding="utf-8")
        if task.checkpoint:
            task.checkpoint.write_bytes(b"weights")
        write_record(task.record, left_by(PlannedLaunch(strategy, task.workers, "throughput", 1, task, options)))
        return 0

    return start


def words_of(process: psutil.Process) -> list[str]:
    """A process's command line; empty where it has ended."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def run_and_disturb(
    planned: PlannedLaunch, disturb: Callable[[psutil.Process], None], folder: Path, rank: int = 1
) -> Record:
    """The record of an endless launch of two workers, of whom `disturb` gets the one of this rank while it trains.

    Fails unless the launch has failed and nobody is left of it.
    """
    log, others, is_over = folder / f"{planned.name}.log", psutil.Process().children(recursive=True), threading.Event()

    def act() -> list[psutil.Process]:
        wait_for(lambda: is_over.is_set() or (log.exists() and log.read_text().count("step ") > 1), 600)
        processes = [each for each in psutil.Process().children(recursive=True) if each not in others]
        found = [process for process in processes if planned.strategy.script in words_of(process)[1:3]]
        # Where there is no launcher, the script starts itself for each worker.
        workers = [each for each in found if each.pid not in {other.ppid() for other in found}]
        assert len(workers) == 2
        disturb(workers[rank])
        return processes

    with ThreadPoolExecutor(1) as pool:
        acting = pool.submit(act)
        # In the main thread, where signals are held while a launch ends.
        record = executor.run_planned(planned, folder)
        is_over.set()
        processes = acting.result()
    assert (record.status, record.world_size, folder / record.log) == ("failed", 2, log)
    assert list(read_records(folder, Record).values()) == [record]
    assert not any(is_running(process) for process in processes)
    return record


def end_all(processes: Mapping[Any, subprocess.Popen], seconds: float) -> tuple[dict, dict]:
    """(statuses, outputs) by process, once all have ended; any that hasn't in time is killed, and the test fails."""
    deadline = time.monotonic() + seconds
    try:
        outputs = {
            place: process.communicate(timeout=deadline - time.monotonic())[0] for place, process in processes.items()
        }
    finally:
        for process in processes.values():
            process.kill()
    return {place: process.returncode for place, process in processes.items()}, outputs


def is_running(process: psutil.Process | int) -> bool:
    """Whether a process, or that of a number, is more than an entry that waits for its parent."""
    try:
        found = psutil.Process(process) if isinstance(process, int) else process
        return found.is_running() and found.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
