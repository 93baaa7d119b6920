"""The launcher ends everything that it started: the failed, the hanging, the stubborn and the strays."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from common import environments, launch, machine
from common.config import Config
from common.errors import REFUSED_STATUS, UserError
from common.launch import ROOT

# A process that ignores SIGTERM, in a session of its own, whose parent is gone: what a framework's launcher can leave.
STRAY = """
import os, signal, sys, time
if os.fork():
    time.sleep(0.5)
    sys.exit(int(sys.argv[1]))
os.setsid()
if os.fork():
    os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[2], "w").write(str(os.getpid()))
time.sleep(600)
"""

GROUP = """
import json, os, sys
from common.launch import run_group
commands, deadline_seconds, *more = json.loads(sys.argv[1])
outcome = run_group(commands, dict(os.environ), deadline_seconds, *more)
print(json.dumps([outcome.status, outcome.timed_out]))
"""


def run_group(commands, deadline_seconds, *more):
    """launch.run_group in a process of its own, since it adopts and ends every descendant."""
    import json

    arguments = [sys.executable, "-c", GROUP, json.dumps([commands, deadline_seconds, *more])]
    result = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(result.stdout.splitlines()[-1])


def python(source, *arguments):
    return [sys.executable, "-c", source, *arguments]


def test_a_group_ends_with_zero_when_all_of_it_does():
    assert run_group([python("pass"), python("pass")], 30) == [0, False]


def test_one_that_fails_ends_those_that_would_go_on():
    assert run_group([python("import time; time.sleep(600)"), python("raise SystemExit(7)")], 30) == [7, False]


def test_a_hanging_group_ends_at_its_deadline():
    assert run_group([python("import time; time.sleep(600)")], 1) == [0, True]


def test_a_stopped_process_ends_at_the_deadline_too():
    assert run_group([python("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)")], 1) == [0, True]


def test_those_that_serve_end_with_those_that_are_waited_for():
    assert run_group([python("pass"), python("import time; time.sleep(600)")], 30, 1) == [0, False]


ONCE = """
import os, signal, sys
try:
    open(sys.argv[1], "x")
except FileExistsError:
    sys.exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_one_that_a_signal_ends_is_started_again_where_that_is_asked_for(tmp_path):
    command = python(ONCE, str(tmp_path / "first"))
    assert run_group([command], 30, None, [0]) == [0, False]
    (tmp_path / "first").unlink()
    assert run_group([command], 30) == [-signal.SIGKILL, False]


def test_one_that_fails_by_itself_is_not_started_again():
    assert run_group([python("raise SystemExit(7)")], 30, None, [0]) == [7, False]


@pytest.mark.parametrize("status", [0, 3])
def test_a_stray_that_left_its_session_and_ignores_sigterm_is_ended(status, tmp_path):
    pid_file = tmp_path / "pid"
    assert run_group([python(STRAY, str(status), str(pid_file))], 30) == [status, False]
    assert not psutil.pid_exists(int(pid_file.read_text()))


def test_every_strategy_file_is_found_by_its_name():
    found = launch.strategies()
    assert found["torch_ddp"] == ROOT / "pytorch_impl" / "ddp.py"
    assert found["tf_mirrored"] == ROOT / "tf_impl" / "mirrored.py"
    assert found["horovod_torch"] == ROOT / "horovod_impl" / "train.py"
    assert found["horovod_tensorflow"] == ROOT / "horovod_impl" / "train_tensorflow.py"
    no_strategies = {"torch_model", "torch_world", "torch_mpi", "torch_inference", "tf_model", "tf_fit"}
    assert not (no_strategies | {"horovod_build", "horovod_tensorflow_model"}) & set(found)


def test_over_mpi_the_workers_are_started_by_mpirun_which_pins_none_of_them(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    command = launch.command_for("torch_sync_sgd", 4, ["--backend", "mpi"], 29500, backend="mpi")
    assert Path(command[0]).name == "mpirun"
    assert command[1:] == [
        *("--bind-to", "none", "--map-by", ":OVERSUBSCRIBE", "-np", "4", str(launch.python_for("torch"))),
        *("pytorch_impl/sync_sgd.py", "--backend", "mpi"),
    ]
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "--allow-run-as-root" in launch.command_for("torch_sync_sgd", 4, [], 29500, backend="mpi")


def test_without_mpirun_mpi_is_refused_with_what_brings_it(tmp_path, monkeypatch):
    monkeypatch.setattr(launch.shutil, "which", lambda program, path=None: None)
    with pytest.raises(UserError, match="there is no mpirun: run `nox -s torch` once"):
        launch.command_for("torch_sync_sgd", 2, [], 29500, backend="mpi")


GPUS_ASKED_FOR = [
    (Config(device="gpu"), 1, "--device gpu, but this machine has 1 GPUs for 2 workers"),
    (Config(backend="nccl"), 0, "--backend nccl, which joins GPUs, but this machine has none"),
    (Config(hierarchical_all_reduce=True), 0, "over NCCL alone, which joins GPUs, but this machine has none"),
]
"""A config, how many GPUs are too few for two workers of it, and what is said about it."""


@pytest.mark.parametrize(("config", "too_few", "words"), GPUS_ASKED_FOR)
def test_gpus_that_are_asked_for_have_to_be_there(config, too_few, words, monkeypatch):
    monkeypatch.setattr(machine, "gpu_names", lambda: ["NVIDIA Something"] * too_few)
    with pytest.raises(UserError, match=words):
        launch.refuse_early(config, "horovod_torch", 2)
    monkeypatch.setattr(machine, "gpu_names", lambda: ["NVIDIA Something"] * (too_few + 1))
    launch.refuse_early(config, "horovod_torch", 2)


def test_a_framework_that_is_not_installed_is_named_with_the_session_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setattr(environments, "FOLDER", tmp_path)
    with pytest.raises(UserError, match="torch isn't installed: run `nox -s torch`"):
        launch.python_for("torch")


def test_the_environment_gives_each_worker_its_threads_and_the_frameworks_the_deadline():
    environment = launch.environment_for(Config(threads=3, deadline_seconds=42))
    assert environment["OMP_NUM_THREADS"] == "3"
    assert environment["HOROVOD_GLOO_TIMEOUT_SECONDS"] == "42"
    assert environment["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Name a strategy first"),
        (["--workers", "2"], "Name a strategy first"),
        (["torch_ddp", "--preset", "imagenet"], "There is no preset named 'imagenet'"),
        (["torch_ddp", "--jit-compile"], "--jit-compile has no effect on torch_ddp"),
        (["torch_dpd"], r"no strategy named 'torch_dpd': choose one of .*torch_ddp"),
        (["torch_single", "--workers", "2"], "torch_single distributes nothing"),
        (["horovod_torch", "--adasum", "--backend", "mpi", "--workers", "3"], "--adasum with 3 workers"),
        (["torch_ddp", "--dimensions", "65", "10"], "begin with 64 and end with 10"),
        (["torch_zero", "--workers", "3"], "doesn't divide by 3 workers"),
        (["tf_mirrored", "--record", "/proc/nowhere/run.json"], "/proc/nowhere/run.json can't be written"),
        (["tf_mirrored", "--checkpoint", "/proc/nowhere/model"], "/proc/nowhere/model can't be written"),
    ],
)
def test_each_kind_of_bad_input_is_refused_before_anything_starts(arguments, words):
    """What exactly is refused of each kind, and what isn't, the tests of the module that refuses it say."""
    with pytest.raises(UserError, match=words):
        launch.prepare(arguments)


def test_what_is_not_refused_becomes_the_command_and_has_its_number_of_workers():
    strategy, config, command = launch.prepare(["tf_mirrored", "--batch", "32"])
    assert (strategy, config.batch) == ("tf_mirrored", 32)
    assert command[1:] == ["tf_impl/mirrored.py", "--batch", "32", "--workers", "2"]
    assert launch.prepare(["tf_one_device"])[2][-2:] == ["--workers", "1"]


def test_a_refusal_is_one_line_and_leaves_nothing(tmp_path):
    record = tmp_path / "run.json"
    options = ["--workers", "3", "--record", str(record)]
    command = [sys.executable, "-m", "common.launch", "tf_multi_worker_mirrored", *options]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert result.returncode == REFUSED_STATUS
    [line] = result.stderr.splitlines()
    assert line.startswith("lockstep: A global batch of 64 doesn't divide by 3 workers")
    assert not result.stdout
    assert not record.exists()


def test_a_launch_that_is_told_to_stop_leaves_nobody_running(tmp_path):
    record = tmp_path / "run.json"
    options = ["--steps", "1000000", "--workers", "2", "--record", str(record)]
    command = [sys.executable, "-m", "common.launch", "torch_ddp", *options]
    launcher = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    workers = wait_for_workers(launcher.pid, 2)
    launcher.send_signal(signal.SIGTERM)
    assert launcher.wait(60) == 128 + signal.SIGTERM
    assert not any(psutil.pid_exists(worker.pid) for worker in workers)
    assert not record.exists()


@pytest.mark.parametrize("strategy", ["torch_ddp", "horovod_torch"])
def test_a_worker_that_dies_ends_its_group_before_the_deadline(strategy, tmp_path):
    options = ["--steps", "1000000", "--workers", "2", "--record", str(tmp_path / "run.json")]
    command = [sys.executable, "-m", "common.launch", strategy, *options, "--deadline-seconds", "110"]
    launcher = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    workers = wait_for_workers(launcher.pid, 2)
    workers[0].kill()
    assert launcher.wait(90) not in (0, launch.TIMED_OUT_STATUS)
    assert not any(psutil.pid_exists(worker.pid) for worker in workers)


def test_a_worker_that_hangs_ends_with_its_group_at_the_deadline(tmp_path):
    options = ["--steps", "1000000", "--workers", "2", "--record", str(tmp_path / "run.json")]
    command = [sys.executable, "-m", "common.launch", "torch_ddp", *options, "--deadline-seconds", "40"]
    launcher = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    workers = wait_for_workers(launcher.pid, 2)
    workers[1].suspend()
    # Gloo's own time limit is the deadline as well: whichever comes first, the launch is over.
    assert launcher.wait(75) != 0
    assert not any(psutil.pid_exists(worker.pid) for worker in workers)


def wait_for_workers(launcher_pid, count):
    """The strategy's own processes below a launcher, once there are `count` that have computed for a second or more.

    Starting takes each some three seconds of processor time, user's and system's.
    """
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        descendants = psutil.Process(launcher_pid).children(recursive=True)
        workers = [process for process in descendants if is_worker(process)]
        if len(workers) == count and all(sum(worker.cpu_times()[:2]) > 4 for worker in workers):
            return workers
        time.sleep(0.2)
    raise AssertionError(f"{count} workers never came")


def is_worker(process):
    try:
        words = process.cmdline()
    except psutil.NoSuchProcess:
        return False
    programs = [Path(word).name for word in words[:3]]
    return any(name in ("ddp.py", "train.py") for name in programs) and "horovodrun" not in programs
