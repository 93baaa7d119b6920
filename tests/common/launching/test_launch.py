"""common/launching/launch.py: what a user asks for is refused in one line or started, and all of it ends."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from common.contract import model
from common.contract.checkpoint import Checkpoint, write_checkpoint
from common.contract.task import Task
from common.contract.work import Work
from common.declarations import catalogue
from common.declarations.strategy import PROCESS, Launcher, Options
from common.declarations.sweep import Sweep
from common.environments import inventory
from common.errors import REFUSED_STATUS, NotInstalledError, UserError
from common.launching import launch
from common.launching.exit_cause import TIMED_OUT_STATUS
from common.measurement import machine
from common.paths import ROOT
from tests.grid import in_grid

THREADRUN = Launcher(
    name="threadrun",
    command=lambda launch: ["threadrun", str(launch.workers), launch.options.codec, str(launch.python), *launch.script],
)


def no_threes(task, options, workers, gpus):
    if workers == 3 and options.packed:
        raise UserError(f"Three workers with {gpus} GPUs: use --no-packed.")


@pytest.fixture
def threads(declare, catalogue_of, monkeypatch):
    """A strategy beside its base and one that isn't installed, on a machine without GPUs."""
    monkeypatch.setattr(machine, "gpu_names", list)
    strategy = declare(launcher=THREADRUN, check=no_threes, base="numpy_alone")
    elsewhere = dataclasses.replace(strategy.family, environment="elsewhere", imports="a_module_that_nobody_has")
    catalogue_of(
        declare("numpy_alone", script="numpy_impl/alone.py", work=Work.UNDISTRIBUTED, options=Options),
        strategy,
        declare("numpy_elsewhere", family=elsewhere),
    )
    return strategy


# The Python and the environment of a launch


def test_the_environment_that_nox_made_is_taken_and_else_the_python_that_has_what_it_takes(
    threads, tmp_path, monkeypatch
):
    monkeypatch.setattr(inventory, "FOLDER", tmp_path)
    assert launch.python_for(threads) == Path(sys.executable)
    made = inventory.Environment(threads.family.environment, ())
    made.made.parent.mkdir()
    made.made.touch()
    assert launch.python_for(threads) == made.python


def test_what_is_not_installed_is_named_with_the_session_that_installs_it(threads, tmp_path, monkeypatch):
    monkeypatch.setattr(inventory, "FOLDER", tmp_path)
    with pytest.raises(NotInstalledError, match=r"^elsewhere isn't installed: run `nox -s elsewhere` once"):
        launch.python_for(catalogue.find("numpy_elsewhere"))


def test_the_environment_gives_each_worker_its_threads_and_the_family_the_deadline(declare):
    asked = []

    def settings(deadline_seconds, threads, interface):
        asked.append((deadline_seconds, threads, interface))
        return {"NUMPY_PATIENCE": "42", "PATH_OF_NUMPY": "here"}

    strategy = declare(family=dataclasses.replace(declare().family, settings=settings))
    environment = launch.environment_for(strategy, Task(threads=3, deadline_seconds=42.5))
    assert asked == [(42, 3, "lo")]
    assert (environment["OMP_NUM_THREADS"], environment["NUMPY_PATIENCE"]) == ("3", "42")
    assert environment["PATH"] == os.environ["PATH"]


# What is asked for


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Name a program first: one of numpy_alone, numpy_threads, numpy_elsewhere"),
        (["--workers", "2"], "Name a program first"),
        (["--runner"], "Name a program first"),
        (["--runner", "numpy_impl.tracer"], "Name a program first"),
        (["numpy_thraeds"], "no program named 'numpy_thraeds': choose one of .*numpy_threads"),
        (["numpy_threads", "--preset", "imagenet"], "There is no preset named 'imagenet'"),
        (["numpy_alone", "--prefetch", "2"], "--prefetch has no effect on numpy_alone: .* one of numpy_threads"),
        (["numpy_threads", "--prefetch", "-1"], "--prefetch -1: give 0 or more"),
        (["numpy_alone", "--workers", "2"], "numpy_alone distributes nothing"),
        (["numpy_elsewhere"], "elsewhere isn't installed"),
        (["numpy_threads", "--workers", "3"], "Three workers with 0 GPUs: use --no-packed"),
        (["numpy_threads", "--workers", "3", "--no-packed"], "doesn't divide by 3 workers"),
        (["numpy_threads", "--dimensions", "65", "10"], "begin with 64 and end with 10"),
        (["numpy_threads", "--device", "gpu"], "--device gpu, but this machine has 0 GPUs for 2 workers"),
        (["numpy_threads", "--record", "/proc/nowhere/run.json"], "/proc/nowhere/run.json can't be written"),
        (["numpy_threads", "--checkpoint", "/proc/nowhere/model"], "/proc/nowhere/model can't be written"),
    ],
)
def test_each_kind_of_bad_input_is_refused_before_anything_starts(threads, arguments, words):
    """What exactly is refused of each kind, and what isn't, the tests of the module that refuses it say."""
    with pytest.raises(UserError, match=words):
        launch.prepare(arguments)


def test_a_checkpoint_that_cannot_be_gone_on_from_is_refused_before_anything_starts(threads, tmp_path, refusal):
    path = tmp_path / "state"
    write_checkpoint(path, Checkpoint(model.initial_weights(Task()), 10, 64), Task())
    launch.prepare(["numpy_threads", "--checkpoint", str(path)])
    weak = ["numpy_threads", "--checkpoint", str(path), "--scaling", "weak"]
    assert "global_batch 64, not 128" in refusal(lambda: launch.prepare(weak))


def test_gpus_that_are_asked_for_have_to_be_there_for_every_worker(threads, monkeypatch, refusal):
    arguments = ["numpy_threads", "--device", "gpu"]
    monkeypatch.setattr(machine, "gpu_names", lambda: ["NVIDIA Something"])
    assert "has 1 GPUs for 2 workers: leave --device out" in refusal(lambda: launch.prepare(arguments))
    monkeypatch.setattr(machine, "gpu_names", lambda: ["NVIDIA Something"] * 2)
    assert launch.prepare(arguments)[1].workload.device == "gpu"


def test_what_is_not_refused_becomes_the_launchers_command_and_has_its_number_of_workers(threads):
    arguments = ["--batch", "32", "--codec", "fp16", "--record", "run.json"]
    strategy, request, command = launch.prepare(["numpy_threads", *arguments])
    assert (strategy, request.workload.batch, request.workers) == (threads, 32, 2)
    script = [sys.executable, "numpy_impl/threads.py", *arguments, "--workers", "2"]
    assert command == ["threadrun", "2", "fp16", *script]
    assert launch.prepare(["numpy_threads", "--workers", "4"])[2][:2] == ["threadrun", "4"]


def test_a_runner_stands_before_the_script_which_keeps_its_options(threads):
    command = launch.prepare(["--runner", "common.measurement.busy", "numpy_threads", "--record", "a.json"])[2]
    runner = ["-m", "common.measurement.busy"]
    assert command[3:] == [sys.executable, *runner, "numpy_impl/threads.py", "--record", "a.json", "--workers", "2"]


def test_a_library_has_its_variables_beside_those_of_its_family(declare):
    library = dataclasses.replace(catalogue.find_library("gloo"), variables={"RINGS": "2"})
    assert launch.settings_for(library, Sweep(), "lo")["RINGS"] == "2"


def test_what_distributes_nothing_is_one_process_with_one_worker(threads):
    *command, record = launch.prepare(["numpy_alone"])[2]
    assert command == [sys.executable, "numpy_impl/alone.py", "--workers", "1", "--record"]
    assert Path(record).name.startswith("numpy_alone-digits-strong-1w-")


# Real launches

SEVERAL_PROCESSES = [
    strategy
    for strategy in catalogue.strategies().values()
    if strategy.quick and strategy.work is Work.DATA_PARALLEL and strategy.launcher.command is not PROCESS.command
]
"""Strategies whose launcher is a program of its own, which starts a process for each worker."""


def command_of(strategy, *options):
    """The command that launches the strategy. Raises NotInstalledError when its environment isn't made."""
    launch.python_for(strategy)
    return [sys.executable, "-m", "common.launching.launch", strategy.name, *options]


def test_a_refusal_is_one_line_and_leaves_nothing(tmp_path):
    record = tmp_path / "run.json"
    command = command_of(SEVERAL_PROCESSES[0], "--workers", "3", "--record", str(record))
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.returncode == REFUSED_STATUS
    [line] = result.stderr.splitlines()
    assert line.startswith("lockstep: A global batch of 64 doesn't divide by 3 workers")
    assert not result.stdout
    assert not record.exists()


def test_a_launch_that_is_told_to_stop_leaves_nobody_running(tmp_path):
    record, strategy = tmp_path / "run.json", SEVERAL_PROCESSES[0]
    command = command_of(strategy, "--steps", "1000000", "--workers", "2", "--record", str(record))
    launcher = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    workers = wait_for_workers(launcher.pid, strategy, 2)
    launcher.send_signal(signal.SIGTERM)
    assert launcher.wait(60) == 128 + signal.SIGTERM
    assert not any(psutil.pid_exists(worker.pid) for worker in workers)
    assert not record.exists()


@pytest.mark.parametrize(
    "strategy", in_grid(SEVERAL_PROCESSES, SEVERAL_PROCESSES[:1]), ids=lambda strategy: strategy.launcher.name
)
def test_a_worker_that_dies_ends_its_group_before_the_deadline(strategy, tmp_path):
    options = ["--steps", "1000000", "--workers", "2", "--record", str(tmp_path / "run.json")]
    command = command_of(strategy, *options, "--deadline-seconds", "110")
    launcher = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    workers = wait_for_workers(launcher.pid, strategy, 2)
    workers[0].kill()
    assert launcher.wait(90) not in (0, TIMED_OUT_STATUS)
    assert not any(psutil.pid_exists(worker.pid) for worker in workers)


@pytest.mark.grid
def test_a_worker_that_hangs_ends_with_its_group_at_the_deadline(tmp_path):
    strategy = SEVERAL_PROCESSES[0]
    options = ["--steps", "1000000", "--workers", "2", "--record", str(tmp_path / "run.json")]
    command = command_of(strategy, *options, "--deadline-seconds", "40")
    launcher = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    workers = wait_for_workers(launcher.pid, strategy, 2)
    workers[1].suspend()
    # Gloo's own time limit is the deadline as well: whichever comes first, the launch is over.
    assert launcher.wait(75) != 0
    assert not any(psutil.pid_exists(worker.pid) for worker in workers)


def wait_for_workers(launcher_pid, strategy, count):
    """The strategy's own processes below a launcher, once there are `count` that have computed for a second or more.

    Starting takes each some three seconds of processor time, user's and system's.
    """
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        descendants = psutil.Process(launcher_pid).children(recursive=True)
        workers = [process for process in descendants if is_worker(process, strategy)]
        if len(workers) == count and all(sum(worker.cpu_times()[:2]) > 4 for worker in workers):
            return workers
        time.sleep(0.2)
    raise AssertionError(f"{count} workers never came")


def is_worker(process, strategy):
    try:
        words = process.cmdline()
    except psutil.NoSuchProcess:
        return False
    programs = [Path(word).name for word in words[:3]]
    return Path(strategy.script).name in programs and strategy.launcher.name not in programs
