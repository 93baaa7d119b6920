"""common/compare.py: a comparison goes on where it stopped, and every planned launch ends with a record."""

import dataclasses
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pandas
import psutil
import pytest

from common import catalogue, compare
from common.catalogue import ROOT
from common.contract.task import PRESETS, parse_command_line
from common.errors import UserError
from common.files import locked
from common.launch import python_for
from common.measurement import machine
from common.measurement.record import Record, declared, read_record, read_records, write_record
from common.plan import PlannedLaunch
from common.strategy import Work

SMALL = dataclasses.replace(PRESETS["digits"], steps=40, warmup_steps=10, window_steps=10, workers=1)

BASE = next(strategy for strategy in catalogue.strategies().values() if strategy.most_workers == 1)
"""A strategy that distributes nothing."""


def compare_command(tmp_path, *options):
    outputs = ["--results", str(tmp_path / "results"), "--out", str(tmp_path / "report.pdf")]
    return [sys.executable, "-m", "common.compare", *options, *outputs]


def launch_of(strategy, task=SMALL, workers=1, repetition=1, **options):
    """A planned launch of a strategy. Raises NotInstalledError when its environment isn't made."""
    python_for(strategy)
    return PlannedLaunch(strategy, workers, "throughput", repetition, task, strategy.options(**options))


@pytest.fixture
def not_installed(declare):
    """A strategy of an environment that isn't made."""
    elsewhere = dataclasses.replace(declare().family, environment="elsewhere", imports="a_module_that_nobody_has")
    return declare(family=elsewhere, synchronous_with={"packed": True})


def test_a_launch_of_what_is_not_installed_is_unsupported_and_says_why(tmp_path, not_installed):
    launch = PlannedLaunch(not_installed, 1, "throughput", 1, SMALL, not_installed.options())
    record = compare.run_planned(launch, tmp_path)
    assert record.status == "unsupported"
    assert "nox -s elsewhere" in record.reason
    assert (tmp_path / record.log).read_text() == f"lockstep: {record.reason}\n"


@pytest.mark.parametrize("packed", [True, False])
def test_a_launch_that_left_no_record_has_all_that_is_declared(tmp_path, not_installed, packed):
    options = not_installed.options(packed=packed)
    launch = PlannedLaunch(not_installed, 2, "throughput", 1, dataclasses.replace(SMALL, workers=2), options)
    record = compare.run_planned(launch, tmp_path)
    assert (record.synchronous, record.world_size) == (packed, 2)
    assert (record.name, record.family) == ("numpy_threads" if packed else "numpy_threads, no packed", "NumPy")
    assert record.options["packed"] is packed


def test_a_launch_that_refuses_its_settings_is_unsupported_with_its_own_words(tmp_path):
    distributed = [each for each in catalogue.strategies().values() if each.work is Work.DATA_PARALLEL]
    task = dataclasses.replace(SMALL, batch=63, workers=2)
    record = compare.run_planned(launch_of(distributed[0], task, workers=2), tmp_path)
    assert (record.status, record.world_size) == ("unsupported", 2)
    assert record.reason.startswith("A global batch of 63 doesn't divide by 2 workers")


@pytest.fixture
def launched(declare, monkeypatch):
    """The made-up strategy, whose launches are made up as well: each writes its log, its record and its weights."""
    strategy = declare()

    def write(arguments, root, log_path, deadline_seconds):
        task, options = parse_command_line(strategy, "help", arguments[3:])
        log_path.write_text("trained")
        if task.checkpoint:
            task.checkpoint.write_bytes(b"weights")
        known = declared(strategy, task, options, task.workers) | {"started_at": "2026-01-01T00:00:00.000+00:00"}
        windows = [{"rank": 0, "step": 10, "steps": 10, "seconds": 1.0}]
        write_record(task.record, Record(**known, status="ok", windows=windows, examples_per_step=64))
        return 0

    monkeypatch.setattr(compare, "_launch", write)
    return strategy


def test_a_launch_leaves_files_of_its_own_even_where_its_name_has_a_point(tmp_path, launched):
    task = dataclasses.replace(SMALL, workers=2, checkpoint=Path("named by the comparison"))
    launches = [launch_of(launched, task, 2, repetition, piece_megabytes=0.5) for repetition in (1, 2)]
    records = [compare.run_planned(launch, tmp_path) for launch in launches]
    assert [record.label for record in records] == ["0.5 piece megabytes"] * 2
    endings = ("json", "log", "safetensors")
    names = {f"{launch.name}.{ending}" for launch in launches for ending in endings}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert "0.5" in launches[0].name


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


def test_a_launch_whose_worker_is_killed_is_failed_with_its_log(tmp_path):
    task = dataclasses.replace(SMALL, steps=1_000_000, deadline_seconds=60)
    launch = launch_of(BASE, task)
    killer = threading.Thread(target=kill_first_worker)
    killer.start()
    record = compare.run_planned(launch, tmp_path)
    killer.join()
    assert record.status == "failed"
    assert (tmp_path / record.log).exists()
    assert list(read_records(tmp_path).values()) == [record]


def test_a_launch_that_hangs_is_failed_by_its_deadline(tmp_path):
    task = dataclasses.replace(SMALL, steps=10_000_000, deadline_seconds=8)
    record = compare.run_planned(launch_of(BASE, task), tmp_path)
    assert record.status == "failed"
    assert "deadline of 8 s" in record.reason


def test_a_comparison_that_was_interrupted_and_then_killed_goes_on_where_it_stopped(tmp_path):
    python_for(BASE)
    options = ["--strategies", BASE.name, "--repetitions", "2", "--order-seed", "5"]
    # A shell that has started these tests in the background has them, and so their children, ignore SIGINT.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    command = compare_command(tmp_path, *options)
    first = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, preexec_fn=heed)
    folder = wait_for(lambda: next(iter((tmp_path / "results").glob("*-quick")), None))
    wait_for(lambda: list(folder.glob("*.json")))
    first.send_signal(signal.SIGINT)
    assert first.wait(60) == 130
    done = {path: path.stat().st_mtime_ns for path in folder.glob("*.json")}
    assert 0 < len(done) < 3

    second = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    wait_for(lambda: processes_of(folder, BASE.script))
    beside = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    second.kill()
    assert beside.returncode == 2
    assert beside.stderr.startswith("lockstep: Another comparison or benchmark runs on this machine")
    second.wait()
    wait_for(lambda: not processes_of(folder), seconds=20)

    again = subprocess.run(compare_command(tmp_path, *options), cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "seed 5" in " ".join(again.stdout.split())
    records = read_records(folder)
    assert [record.status for record in records.values()] == ["ok"] * 3
    assert all(path.stat().st_mtime_ns == changed for path, changed in done.items())
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF")


def processes_of(folder, *words):
    """All processes that have the folder, and each of these words, in their command lines."""
    lines = {process: " ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])}
    return [process for process, line in lines.items() if all(word in line for word in (f"{folder}/", *words))]


@pytest.fixture
def compared(launched, catalogue_of, monkeypatch, tmp_path):
    """A function that compares made-up launches of one round in the test's folder, as the command line would."""
    catalogue_of(launched)
    monkeypatch.setattr(compare.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0))

    def run(*options, repetitions="1"):
        rounds = ["--repetitions", repetitions] if repetitions else []
        arguments = ["compare", "--strategies", launched.name, "--workers", "1", *rounds, *options]
        outputs = ["--results", str(tmp_path), "--out", str(tmp_path / "report.pdf")]
        monkeypatch.setattr(sys, "argv", [*arguments, *outputs])
        with pytest.raises(SystemExit) as ended:
            compare.main()
        assert ended.value.code == 0
        return max(tmp_path.glob("*-quick"))

    return run


def test_a_launch_that_failed_is_tried_again_once_the_comparison_goes_on(compared, tmp_path):
    folder = compared()
    first, *others = read_records(folder)
    failed = dataclasses.replace(read_record(first), status="failed", reason="The machine was switched off.")
    write_record(first, failed)
    written = {path: path.stat().st_mtime_ns for path in others}
    (folder / "finished").unlink()
    assert compared() == folder
    assert [record.status for record in read_records(folder).values()] == ["ok"] * (1 + len(others))
    assert {path: path.stat().st_mtime_ns for path in others} == written


def test_a_comparison_with_a_damaged_record_is_not_finished(compared, monkeypatch, tmp_path):
    def damage(launch, *_):
        [path] = tmp_path.glob(f"*/{launch.name}.json")
        path.write_text('{"schema_version": ')
        return ""

    monkeypatch.setattr(compare, "_line_of", damage)
    with pytest.raises(UserError, match=r"json isn't a record that can be read.*run its launch again"):
        compared()
    assert not list(tmp_path.glob("*/finished"))


def test_the_time_before_an_interruption_counts(compared, monkeypatch):
    folder = compared()
    whole = pandas.read_csv(folder / "durations.csv")
    first, second = whole["launch"]
    (folder / "finished").unlink()
    (folder / f"{second}.json").unlink()
    whole.assign(seconds=[1000.5, 2000.5]).to_csv(folder / "durations.csv", index=False)
    compared()
    seconds = dict(pandas.read_csv(folder / "durations.csv").itertuples(index=False))
    assert seconds[first] == 1000.5
    assert 0 < seconds[second] < 100


def test_a_launch_that_was_interrupted_before_its_seconds_were_noted_is_not_made_again(compared):
    folder = compared()
    whole = pandas.read_csv(folder / "durations.csv")
    (folder / "finished").unlink()
    whole.assign(seconds=1000.5).head(1).to_csv(folder / "durations.csv", index=False)
    written = {path: path.stat().st_mtime_ns for path in folder.glob("*.json")}
    compared()
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*.json")} == written
    assert set(pandas.read_csv(folder / "durations.csv")["seconds"]) == {1000.5}


def test_a_quick_comparison_ends_in_its_time_and_says_what_it_left_out(compared, monkeypatch, capsys):
    clock = iter(range(0, 10_000, 25))
    monkeypatch.setattr(compare.time, "monotonic", lambda: next(clock))
    folder = compared("--minutes", "1", repetitions=None)
    plan, seconds = pandas.read_csv(folder / "plan.csv"), pandas.read_csv(folder / "durations.csv")
    assert set(seconds["seconds"]) == {25}
    assert len(seconds) == len(plan) == 1
    assert pandas.read_csv(folder / "left_out.csv")["strategy"].tolist() == ["numpy_threads"]
    assert "Time didn't suffice for numpy_threads: --minutes " in capsys.readouterr().out


def test_the_plan_names_the_stage_and_the_margin_of_every_launch(compared):
    folder = compared("--margin", "0.02", "--minutes", "0.01", repetitions=None)
    plan = pandas.read_csv(folder / "plan.csv")
    assert {*plan["margin"]} == {0.02}
    assert plan["stage"].iloc[0] == "round"


def test_only_one_comparison_runs_on_a_machine_and_in_a_folder(compared, refusal, tmp_path):
    with machine.alone():
        assert refusal(compared).startswith("Another comparison or benchmark runs on this machine")
    folder = compared()
    (folder / "finished").unlink()
    with locked(folder / "lock"):
        assert refusal(compared).startswith(f"Another comparison fills {folder}: ")
    assert compared() == folder


def test_a_plan_runs_nothing(tmp_path):
    command = compare_command(tmp_path, "--plan", "--profile", "full")
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    assert "launches. The first of 10 rounds will tell how long they take." in result.stdout
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["--results", "--out"])
def test_a_folder_that_cannot_be_written_is_refused_before_any_launch(tmp_path, option, monkeypatch):
    (tmp_path / "file").write_text("")
    command = compare_command(tmp_path, "--strategies", BASE.name)
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
        return [process for process in processes if BASE.script in process.cmdline()[1:3]]

    [worker] = wait_for(workers)
    worker.kill()
