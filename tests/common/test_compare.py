"""A comparison goes on where it stopped, and every cell of it ends with a record, whatever its launch does."""

import dataclasses
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import psutil
import pytest

from common import compare, environments
from common.config import PRESETS
from common.errors import UserError
from common.launch import ROOT
from common.plan import Cell, Options
from common.record import read_records

SMALL = dataclasses.replace(PRESETS["digits"], steps=40, warmup_steps=10, window_steps=10, workers=1)


def compare_command(tmp_path, *options):
    outputs = ["--results", str(tmp_path / "results"), "--out", str(tmp_path / "report.pdf")]
    return [sys.executable, "-m", "common.compare", *options, *outputs]


def test_a_cell_whose_framework_is_missing_is_unsupported_and_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    record = compare.run_cell(Cell("torch_single", 1, "throughput", 1, SMALL), tmp_path)
    assert record.status == "unsupported"
    assert "nox -s torch" in record.reason
    assert (tmp_path / record.log).exists()


def test_a_cell_that_refuses_its_settings_is_unsupported_with_its_own_words(tmp_path):
    config = dataclasses.replace(SMALL, batch=63, workers=2)
    record = compare.run_cell(Cell("torch_ddp", 2, "throughput", 1, config), tmp_path)
    assert (record.status, record.world_size) == ("unsupported", 2)
    assert record.reason.startswith("A global batch of 63 doesn't divide by 2 workers")


def test_a_launch_leaves_files_of_its_own_even_where_its_name_has_a_point(tmp_path):
    config = dataclasses.replace(SMALL, workers=2, bucket_megabytes=0.5, checkpoint=Path("named by the comparison"))
    cells = [Cell("torch_ddp", 2, "throughput", repetition, config) for repetition in (1, 2)]
    assert [compare.run_cell(cell, tmp_path).status for cell in cells] == ["ok", "ok"]
    endings = ("json", "log", "safetensors")
    assert {path.name for path in tmp_path.iterdir()} == {f"{cell.name}.{end}" for cell in cells for end in endings}
    assert "0.5" in cells[0].name


@pytest.mark.parametrize("updates", ["asynchronous", "synchronous"])
def test_a_cell_that_left_no_record_says_whether_it_would_have_been_synchronous(tmp_path, monkeypatch, updates):
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    cell = Cell("tf_parameter_server", 1, "throughput", 1, dataclasses.replace(SMALL, updates=updates))
    assert compare.run_cell(cell, tmp_path).synchronous == (updates == "synchronous")


@pytest.mark.parametrize(
    ("log", "outcome"),
    [
        ("lockstep: note: no private network\nlockstep: a batch of 63\n", ("unsupported", "a batch of 63")),
        ("lockstep: a batch of 63\nlockstep: failed: worker 1 ended\n", ("failed", "worker 1 ended")),
        ("lockstep: note: no private network\nTraceback\n", ("failed", "It ended with status 1.")),
    ],
)
def test_a_log_says_whether_a_launch_refused_or_failed(log, outcome):
    assert compare._why(1, 60.0, log) == outcome


def test_a_quick_comparison_starts_a_round_only_where_its_time_is_left():
    options = Options()
    assert compare._another_round(options, 1, 0.0, 10_000.0)
    assert compare._another_round(options, 6, compare.QUICK_SECONDS - 50, 40.0)
    assert not compare._another_round(options, 6, compare.QUICK_SECONDS - 50, 60.0)
    asked = Options(repetitions=2)
    assert compare._another_round(asked, 2, 10_000.0, 10_000.0)
    assert not compare._another_round(asked, 3, 0.0, 1.0)


def test_a_cell_whose_worker_is_killed_is_failed_with_its_log(tmp_path):
    config = dataclasses.replace(SMALL, steps=1_000_000, deadline_seconds=60)
    killer = threading.Thread(target=kill_first_worker)
    killer.start()
    record = compare.run_cell(Cell("torch_single", 1, "throughput", 1, config), tmp_path)
    killer.join()
    assert record.status == "failed"
    assert (tmp_path / record.log).exists()
    assert list(read_records(tmp_path).values()) == [record]


def test_a_cell_that_hangs_is_failed_by_its_deadline(tmp_path):
    config = dataclasses.replace(SMALL, steps=10_000_000, deadline_seconds=8)
    record = compare.run_cell(Cell("torch_single", 1, "throughput", 1, config), tmp_path)
    assert record.status == "failed"
    assert "deadline of 8 s" in record.reason


def test_an_interrupted_comparison_goes_on_where_it_stopped(tmp_path):
    options = ["--strategies", "torch_single", "--repetitions", "3", "--order-seed", "5"]
    # A shell that has started these tests in the background has them, and so their children, ignore SIGINT.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    command = compare_command(tmp_path, *options)
    first = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, preexec_fn=heed)
    folder = wait_for(lambda: next(iter((tmp_path / "results").glob("*-quick")), None))
    wait_for(lambda: list(folder.glob("*.json")))
    first.send_signal(signal.SIGINT)
    assert first.wait(60) == 130
    done = {path: path.stat().st_mtime_ns for path in folder.glob("*.json")}
    assert 0 < len(done) < 4

    again = subprocess.run(compare_command(tmp_path, *options), cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "seed 5" in again.stdout
    records = read_records(folder)
    assert [record.status for record in records.values()] == ["ok"] * 4
    assert all(path.stat().st_mtime_ns == changed for path, changed in done.items())
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")


def test_a_plan_runs_nothing(tmp_path):
    command = compare_command(tmp_path, "--plan", "--profile", "full")
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert "hours" in result.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["--results", "--out"])
def test_a_folder_that_cannot_be_written_is_refused_before_any_launch(tmp_path, option, monkeypatch):
    (tmp_path / "file").write_text("")
    command = compare_command(tmp_path, "--strategies", "torch_single")
    command[command.index(option) + 1] = str(tmp_path / "file" / "below")
    monkeypatch.setattr(sys, "argv", command[2:])
    with pytest.raises(UserError, match="can't be written"):
        compare.main()


def wait_for(condition, seconds=90):
    """What `condition` returns once that is true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.1)
    raise AssertionError("It never came.")


def kill_first_worker():
    def workers():
        processes = psutil.Process().children(recursive=True)
        return [process for process in processes if any(word.endswith("single.py") for word in process.cmdline()[1:3])]

    [worker] = wait_for(workers)
    worker.kill()
