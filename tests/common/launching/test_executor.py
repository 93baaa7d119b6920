"""common/launching/executor.py: every launch ends with all below it, and leaves one record of its own, whatever
happens to it."""

import dataclasses
import signal
import subprocess
import tempfile
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from common.contract.task import PRESETS
from common.declarations import catalogue
from common.errors import LaunchFailedError
from common.launching import executor, planned
from common.launching.executor import ThisMachine
from common.launching.launch import TEMPORARY, python_for
from common.launching.planned import PlannedLaunch
from common.records.files import read_record, read_records
from common.records.training import Record
from tests.launching import is_running, made_up, wait_for

SMALL = dataclasses.replace(PRESETS["digits"], steps=40, warmup_steps=10, window_steps=10, workers=1)


def launch_of(strategy, task=SMALL, repetition=1, **options):
    """A planned launch of a strategy."""
    return PlannedLaunch(strategy, task.workers, "throughput", repetition, task, strategy.options(**options))


@pytest.fixture
def launched(declare, monkeypatch):
    """The made-up strategy, whose launches are made up as well."""
    strategy = declare()
    monkeypatch.setattr(executor, "start", made_up(strategy))
    return strategy


def test_a_launch_of_what_is_not_installed_is_unsupported_and_its_record_has_all_that_is_declared(tmp_path, declare):
    elsewhere = dataclasses.replace(declare().family, environment="elsewhere", imports="a_module_that_nobody_has")
    launch = launch_of(declare(family=elsewhere), dataclasses.replace(SMALL, workers=2), packed=False)
    record = executor.run_planned(launch, tmp_path)
    assert record.status == "unsupported"
    assert "nox -s elsewhere" in record.reason
    assert (tmp_path / record.log).read_text() == f"lockstep: {record.reason}\n"
    assert (record.name, record.world_size, record.family) == ("numpy_threads, no packed", 2, "NumPy")


def test_files_have_the_whole_name_of_a_launch_and_are_never_taken_for_those_of_one_that_failed(
    tmp_path, launched, monkeypatch
):
    task = dataclasses.replace(SMALL, checkpoint=Path("named by the comparison"))
    launch = launch_of(launched, task, piece_megabytes=0.5)
    assert executor.run_planned(launch, tmp_path).label == "0.5 piece megabytes"
    files = {f"{launch.name}.{ending}" for ending in ("json", "log", "safetensors")}
    assert {path.name for path in tmp_path.iterdir()} == files
    assert "0.5" in launch.name
    is_left = LaunchFailedError("Process 7 is still there.")
    for reason, ending in (("It ended without leaving a record.", [0]), ("Process 7 is still there.", is_left)):
        monkeypatch.setattr(executor, "start", Mock(side_effect=ending))
        record = executor.run_planned(launch, tmp_path)
        assert (record.status, record.reason) == ("failed", reason)
        assert list(read_records(tmp_path, Record).values()) == [record]
        assert not list(tmp_path.glob("*.safetensors"))


def test_an_interrupted_launch_leaves_no_record_unless_it_has_been_read_as_a_whole(tmp_path, launched, monkeypatch):
    launch, start, read = launch_of(launched), executor.start, planned.note_reading
    record = tmp_path / f"{launch.name}.json"

    def interrupted_late(*arguments):
        start(*arguments)
        assert record.exists()
        raise KeyboardInterrupt

    monkeypatch.setattr(executor, "start", interrupted_late)
    with pytest.raises(KeyboardInterrupt):
        executor.run_planned(launch, tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".log"]

    noted = []

    def interrupted_reading(*arguments, **options):
        signal.raise_signal(signal.SIGINT)
        noted.append(read(*arguments, **options))
        return noted[0]

    monkeypatch.setattr(executor, "start", start)
    monkeypatch.setattr(planned, "note_reading", interrupted_reading)
    # Shells have what they start in the background ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            executor.run_planned(launch, tmp_path)
    finally:
        signal.signal(signal.SIGINT, before)
    assert [read_record(record, Record)] == noted


def test_a_launch_starts_in_the_checkout_that_was_asked_for(tmp_path, launched, monkeypatch):
    start = Mock(wraps=executor.start)
    monkeypatch.setattr(executor, "start", start)
    launch = launch_of(launched, dataclasses.replace(SMALL, deadline_seconds=9.0))
    executor.run_planned(launch, tmp_path / "new", ThisMachine(tmp_path))
    [(arguments, *others)] = [call.args for call in start.call_args_list]
    assert arguments[:3] == ["-m", "common.launching.launch", "numpy_threads"]
    assert others == [tmp_path, tmp_path / "new" / f"{launch.name}.log", 9.0, {}]
    assert len(read_records(tmp_path / "new", Record)) == 1


# Real processes


def test_python_runs_in_the_folder_with_the_variables_and_its_output_goes_to_the_log(tmp_path):
    program = "import os; print(os.environ['NUMPY_KERNELS'], os.getcwd()); raise SystemExit(3)"
    log = tmp_path / "log"
    status = executor.start(["-c", program], tmp_path, log, 60.0, {"NUMPY_KERNELS": "fast"})
    assert (status, log.read_text()) == (3, f"fast {tmp_path}\n")


def test_temporary_files_of_a_launch_that_was_killed_are_removed_and_no_others(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / TEMPORARY.format(1)).mkdir()
    folder = repr(f"{tmp_path}/{TEMPORARY}")
    program = f"import os; os.makedirs({folder}.format(os.getpid()) + 'abc/def'); os.kill(os.getpid(), 9)"
    assert executor.start(["-c", program], tmp_path, tmp_path / "log", 60.0, {}) == -9
    assert {each.name for each in tmp_path.iterdir()} == {"log", TEMPORARY.format(1)}


def test_what_ignores_sigterm_is_killed_with_all_below_it(monkeypatch):
    monkeypatch.setattr(executor, "STOP_SECONDS", 0.1)
    # Below it is one that has left its process group.
    stubborn = "trap '' TERM; setsid sleep 60 & echo $!; wait"
    with psutil.Popen(["sh", "-c", stubborn], stdout=subprocess.PIPE) as launcher:
        child = psutil.Process(int(launcher.stdout.readline()))
        executor.end(launcher)
        assert launcher.returncode == -9
        wait_for(lambda: not is_running(child), seconds=5)


def test_a_launch_that_hangs_is_failed_by_its_deadline_and_leaves_a_log_and_one_record(tmp_path):
    strategy = next(each for each in catalogue.strategies().values() if each.most_workers == 1)
    python_for(strategy)
    task = dataclasses.replace(SMALL, steps=10_000_000, deadline_seconds=8)
    record = executor.run_planned(launch_of(strategy, task), tmp_path)
    assert (record.status, record.reason) == ("failed", "It was ended by its deadline of 8 s.")
    assert (tmp_path / record.log).exists()
    assert list(read_records(tmp_path, Record).values()) == [record]
