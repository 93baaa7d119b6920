"""common/launching/launch.py: what a user asks for is refused in one line or started, and all of it ends."""

import dataclasses
import os
import signal
import subprocess
import sys
from pathlib import Path

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
from common.launching.planned import PlannedLaunch
from common.measurement import machine
from common.paths import ROOT
from tests.launching import run_and_disturb

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


def test_the_python_is_that_which_nox_made_else_one_that_has_what_it_takes_and_without_any_one_line_says_how_to_have_it(
    threads, tmp_path, monkeypatch
):
    monkeypatch.setattr(inventory, "FOLDER", tmp_path)
    assert launch.python_for(threads) == Path(sys.executable)
    made = inventory.Environment(threads.family.environment, ())
    made.made.parent.mkdir()
    made.made.touch()
    assert launch.python_for(threads) == made.python
    with pytest.raises(NotInstalledError, match=r"^elsewhere isn't installed: run `nox -s elsewhere` once"):
        launch.python_for(catalogue.find("numpy_elsewhere"))


def test_the_environment_gives_each_worker_its_threads_and_the_family_the_deadline(declare):
    family = dataclasses.replace(declare().family, settings=lambda *asked: {"NUMPY_ASKED": str(asked)})
    environment = launch.environment_for(declare(family=family), Task(threads=3, deadline_seconds=42.5))
    assert (environment["OMP_NUM_THREADS"], environment["NUMPY_ASKED"]) == ("3", "(42, 3, 'lo')")
    assert environment["PATH"] == os.environ["PATH"]
    library = dataclasses.replace(catalogue.find_library("gloo"), variables={"RINGS": "2"})
    assert launch.settings_for(library, Sweep(), "lo")["RINGS"] == "2"


# What is asked for


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "Name a program first: one of numpy_alone, numpy_threads, numpy_elsewhere"),
        ("--workers 2", "Name a program first"),
        ("--runner numpy_impl.tracer", "Name a program first"),
        ("numpy_thraeds", "no program named 'numpy_thraeds': choose one of .*numpy_threads"),
        ("numpy_alone --prefetch 2", "--prefetch has no effect on numpy_alone: .* one of numpy_threads"),
        ("numpy_threads --prefetch -1", "--prefetch -1: give 0 or more"),
        ("numpy_alone --workers 2", "numpy_alone distributes nothing"),
        ("numpy_elsewhere", "elsewhere isn't installed"),
        ("numpy_threads --workers 3", "Three workers with 0 GPUs: use --no-packed"),
        ("numpy_threads --workers 3 --no-packed", "doesn't divide by 3 workers"),
        ("numpy_threads --dimensions 65 10", "begin with 64 and end with 10"),
        ("numpy_threads --record /proc/nowhere/run.json", "/proc/nowhere/run.json can't be written"),
        ("numpy_threads --checkpoint /proc/nowhere/model", "/proc/nowhere/model can't be written"),
    ],
)
def test_each_kind_of_bad_input_is_refused_before_anything_starts(threads, words, said):
    """What exactly is refused of each kind, and what isn't, the tests of the module that refuses it say."""
    with pytest.raises(UserError, match=said):
        launch.prepare(words.split())


def test_a_checkpoint_that_cannot_be_gone_on_from_is_refused_before_anything_starts(threads, tmp_path, refusal):
    path = tmp_path / "state"
    write_checkpoint(path, Checkpoint(model.initial_weights(Task()), 10, 64), Task())
    launch.prepare(["numpy_threads", "--checkpoint", str(path)])
    weak = ["numpy_threads", "--checkpoint", str(path), "--scaling", "weak"]
    assert "global_batch 64, not 128" in refusal(lambda: launch.prepare(weak))


@pytest.mark.parametrize(("runner", "run"), [([], []), (["--runner", "some.module"], ["-m", "some.module"])])
def test_what_is_not_refused_becomes_the_launchers_command_and_has_its_number_of_workers(threads, runner, run):
    arguments = ["--batch", "32", "--codec", "fp16", "--record", "run.json"]
    strategy, request, command = launch.prepare([*runner, "numpy_threads", *arguments])
    assert (strategy, request.workload.batch, request.workers) == (threads, 32, 2)
    script = [sys.executable, *run, "numpy_impl/threads.py", *arguments, "--workers", "2"]
    assert command == ["threadrun", "2", "fp16", *script]
    assert launch.prepare(["numpy_threads", "--workers", "4"])[2][:2] == ["threadrun", "4"]


def test_what_distributes_nothing_is_one_process_with_one_worker_and_leaves_a_record_in_the_results(threads):
    _, request, [*command, record] = launch.prepare(["numpy_alone"])
    assert str(request.workload.record) == record
    assert command == [sys.executable, "numpy_impl/alone.py", "--workers", "1", "--record"]
    assert record.startswith(f"{ROOT}/results/numpy_alone-digits-strong-1w-")


# Real launches

SEVERAL_PROCESSES = next(
    strategy
    for strategy in catalogue.strategies().values()
    if strategy.quick and strategy.work is Work.DATA_PARALLEL and strategy.launcher.command is not PROCESS.command
)
"""A strategy whose launcher is a program of its own, which starts a process for each worker."""


def test_a_refusal_is_one_line_and_leaves_nothing(tmp_path):
    launch.python_for(SEVERAL_PROCESSES)
    record = tmp_path / "run.json"
    words = [SEVERAL_PROCESSES.name, "--workers", "3", "--record", str(record)]
    command = [sys.executable, "-m", "common.launching.launch", *words]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.returncode == REFUSED_STATUS
    [line] = result.stderr.splitlines()
    assert line.startswith("lockstep: A global batch of 64 doesn't divide by 3 workers")
    assert not result.stdout
    assert not record.exists()


def test_a_launch_that_is_told_to_stop_leaves_nobody_running_even_where_a_worker_hangs(tmp_path):
    def stop(worker):
        worker.suspend()
        [launcher] = [each for each in worker.parents() if each.ppid() == os.getpid()]
        launcher.terminate()

    task = Task(workers=2, steps=1_000_000)
    planned = PlannedLaunch(SEVERAL_PROCESSES, 2, "throughput", 1, task, SEVERAL_PROCESSES.options())
    assert run_and_disturb(planned, stop, tmp_path).reason.startswith(f"It ended with status {128 + signal.SIGTERM}")
