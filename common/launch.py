"""Start one strategy as a user would, with a deadline, and stop all of its processes, always.

To start it: `python -m common.launch torch_ddp --workers 4 --preset digits`.

The launch gets a network namespace of its own where the system lets an ordinary user make one: nothing outside reaches
the frameworks' servers, which listen on every interface, and the bytes of its loopback are its alone.
"""

import contextlib
import ctypes
import fcntl
import importlib.util
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import psutil

from common import dataset, environments, machine
from common.checkpoint import read_checkpoint
from common.config import (
    MODEL_PARALLEL,
    Config,
    check_layout,
    check_options,
    global_batch,
    is_synchronous,
    parse_command_line,
)
from common.errors import NotInstalledError, UserError, exit_with_one_line
from common.files import ensure_writable

ROOT = Path(__file__).parent.parent

TIMED_OUT_STATUS = 124
"""Exit status of a launch that its deadline ended, as timeout(1) gives."""

UNDISTRIBUTED = {"torch_single", "tf_one_device"}
"""The base cases: they have one worker and no other number."""

CLUSTERS = {"tf_multi_worker_mirrored", "tf_parameter_server"}
"""Strategies of several TensorFlow processes: they start all of them here unless TF_CONFIG or Slurm names a cluster."""

_NO_STRATEGIES = ("model", "world", "inputs", "fit", "inference", "mpi")
_GRACE_SECONDS = 5.0
_UNSHARE = ("unshare", "--user", "--map-root-user", "--net")


@dataclass(frozen=True)
class Outcome:
    """How a group of processes ended."""

    status: int
    """The first exit status that isn't 0, or 0; negative for a signal."""
    timed_out: bool
    """Whether the deadline ended it."""
    seconds: float
    """From the start of the first process to the end of the last."""
    failed: int | None = None
    """Which command ended with that status."""


def strategies() -> dict[str, Path]:
    """Every strategy by name: each file beside a framework's model, and Horovod's training scripts."""
    found = {}
    for framework, folder in (("torch", "pytorch_impl"), ("tf", "tf_impl")):
        for path in sorted((ROOT / folder).glob("[a-z]*.py")):
            if path.stem not in _NO_STRATEGIES:
                found[f"{framework}_{path.stem}"] = path
    for path in sorted((ROOT / "horovod_impl").glob("train*.py")):
        found["horovod_" + (path.stem.removeprefix("train").strip("_") or "torch")] = path
    return found


def framework_of(strategy: str) -> str:
    """The framework a strategy needs beside NumPy: torch, tensorflow or horovod."""
    return {"torch": "torch", "tf": "tensorflow", "horovod": "horovod"}[strategy.partition("_")[0]]


def cluster_is_given() -> bool:
    """Whether TF_CONFIG, or Slurm in a step that srun started, says which task of which cluster this process is."""
    return "TF_CONFIG" in os.environ or "SLURM_STEP_NUM_TASKS" in os.environ


def python_for(framework: str) -> Path:
    """The Python that has the framework: that of the environment Nox made for it, else this one where it does.

    Raises NotInstalledError when there is neither, with what went wrong where Nox tried.
    """
    if python := environments.python_of(framework):
        return python
    if importlib.util.find_spec(framework):
        return Path(sys.executable)
    raise NotInstalledError(f"{framework} isn't installed: run `nox -s {framework}` once, which makes its environment.")


def command_for(strategy: str, workers: int, arguments: list[str], port: int, backend: str = "auto") -> list[str]:
    """The command line that a user would type to start `workers` workers of the strategy; mpirun for backend mpi.

    Raises UserError for a strategy that doesn't exist, whose framework isn't installed or that can't have as many.
    """
    scripts = strategies()
    if strategy not in scripts:
        raise UserError(f"There is no strategy named '{strategy}': choose one of {', '.join(scripts)}.")
    if strategy in UNDISTRIBUTED and workers != 1:
        raise UserError(f"{strategy} distributes nothing: leave --workers out, or choose another strategy.")
    python = str(python_for(framework_of(strategy)))
    script = [str(scripts[strategy].relative_to(ROOT)), *arguments]
    if strategy in UNDISTRIBUTED | {"torch_data_parallel"} or strategy.startswith("tf_"):
        return [python, *script]
    programs = Path(python).parent
    if backend == "mpi":
        return [*_mpirun(programs, framework_of(strategy)), "-np", str(workers), python, *script]
    if strategy.startswith("torch_"):
        torchrun = [str(programs / "torchrun"), "--nproc-per-node", str(workers), "--master-port", str(port)]
        return [*torchrun, *script]
    return [str(programs / "horovodrun"), "--gloo", "-np", str(workers), python, *script]


def _mpirun(programs: Path, framework: str) -> list[str]:
    """mpirun of the framework's environment, else of the system, which leaves pinning and crowding to us.

    Raises UserError when there is none.
    """
    found = shutil.which("mpirun", path=programs) or shutil.which("mpirun")
    if not found:
        raise UserError(f"--backend mpi, but there is no mpirun: run `nox -s {framework}` once, or install Open MPI.")
    options = ["--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"]
    # In a network namespace of its own the launch is root of that namespace, which Open MPI refuses unless asked.
    return [found, *options, *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]


def environment_for(config: Config) -> dict[str, str]:
    """The environment of a launch: threads, quiet frameworks, and their own time limits set to the deadline."""
    seconds = str(int(config.deadline_seconds))
    settings = {
        "OMP_NUM_THREADS": str(config.threads),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "PYTHONUNBUFFERED": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": seconds,
        "HOROVOD_START_TIMEOUT": seconds,
    }
    return os.environ | settings


def run_group(
    commands: list[list[str]],
    environment: dict[str, str],
    deadline_seconds: float,
    waited_for: int | None = None,
    restarted: Collection[int] = (),
) -> Outcome:
    """Run the commands side by side until all have ended, one has failed or the deadline is over; then stop everything.

    With `waited_for`, only the first so many have to end by themselves: the others serve them. A command whose number
    is in `restarted` is started again when a signal ends it, as a cluster's scheduler would.

    Everything means every descendant of this process, those included that left their process group or lost their
    parent: this process adopts them (prctl(2), PR_SET_CHILD_SUBREAPER), so it should have no other children.
    """
    ctypes.CDLL(None, use_errno=True).prctl(36, 1)
    started = time.monotonic()
    running: dict[int, subprocess.Popen] = {}

    def start(number: int) -> None:
        running[number] = subprocess.Popen(commands[number], cwd=ROOT, env=environment, start_new_session=True)

    first = set(range(len(commands) if waited_for is None else waited_for))
    outcome = None
    try:
        for number in range(len(commands)):
            start(number)
        while outcome is None and first & set(running):
            ended = _wait_for_one(running, started + deadline_seconds)
            if ended is None:
                outcome = (0, True, None)
                continue
            status = running.pop(ended).returncode
            if status < 0 and ended in restarted:
                print(f"lockstep: note: process {ended} was ended by signal {-status} and is started again.")
                start(ended)
            elif status:
                outcome = (status, False, ended)
    except FileNotFoundError as error:
        raise UserError(f"{error.filename} is missing: delete the folder .nox and run nox again.") from error
    finally:
        stop_descendants()
    status, timed_out, failed = outcome or (0, False, None)
    return Outcome(status, timed_out, time.monotonic() - started, failed)


def stop_descendants() -> None:
    """End every descendant of this process: SIGTERM, a few seconds to leave in order, then SIGKILL."""
    deadline = time.monotonic() + _GRACE_SECONDS
    _signal_all(psutil.Process().children(recursive=True), signal.SIGTERM)
    while remaining := psutil.Process().children(recursive=True):
        if time.monotonic() > deadline:
            _signal_all(remaining, signal.SIGKILL)
        psutil.wait_procs(remaining, timeout=0.2)


def main() -> None:
    """Run one strategy as the command line says; exits with its status, or 124 when the deadline ended it."""
    strategy, config, command = prepare(sys.argv[1:])
    if not _is_one_of_several_tasks(strategy):
        _enter_private_network()
    exit_on_signals()
    outcome = run_group([command], environment_for(config), config.deadline_seconds)
    if outcome.timed_out:
        print(f"lockstep: {strategy} was ended by its deadline of {config.deadline_seconds:g} s.", file=sys.stderr)
        sys.exit(TIMED_OUT_STATUS)
    sys.exit(outcome.status if outcome.status >= 0 else 128 - outcome.status)


def prepare(arguments: list[str]) -> tuple[str, Config, list[str]]:
    """The strategy that the launcher's arguments name, its Config, and the command that starts it.

    Raises UserError for all that can be refused before anything is started.
    """
    if not arguments or arguments[0].startswith("-"):
        raise UserError(f"Name a strategy first: one of {', '.join(strategies())}.")
    strategy, options = arguments[0], arguments[1:]
    config = parse_command_line(__doc__, options)
    check_options(config, strategy)
    if _is_one_of_several_tasks(strategy):
        return strategy, config, command_for(strategy, config.workers or 1, options, port=0)
    workers = config.workers or (1 if strategy in UNDISTRIBUTED else 2)
    options = [*options, "--workers", str(workers)]
    command = command_for(strategy, workers, options, free_ports(1)[0], config.backend)
    refuse_early(config, strategy, workers)
    return strategy, config, command


def _is_one_of_several_tasks(strategy: str) -> bool:
    """Whether others start the strategy's other tasks on their machines, and reach this one over the network."""
    return strategy in CLUSTERS and cluster_is_given()


def refuse_early(config: Config, strategy: str, workers: int) -> None:
    """Try here what every worker will need, so that bad input is one line of ours and not a launcher's traceback.

    Raises UserError. The data set is in the cache afterwards.
    """
    check_layout(config, strategy, workers)
    gpus = len(machine.gpu_names())
    if config.device == "gpu" and gpus < workers:
        raise UserError(f"--device gpu, but this machine has {gpus} GPUs for {workers} workers: leave --device out.")
    if config.backend == "nccl" and not gpus:
        raise UserError("--backend nccl, which joins GPUs, but this machine has none: leave --backend out.")
    if config.hierarchical_all_reduce and not gpus:
        raise UserError(
            "--hierarchical-all-reduce: Horovod sums machine by machine over NCCL alone, which joins GPUs, but this "
            "machine has none; leave it out."
        )
    dataset.load(config)
    rows = config.batch
    if is_synchronous(config, strategy):
        rows = global_batch(config, workers, one_model=strategy in MODEL_PARALLEL)
    if config.record:
        ensure_writable(config.record)
    if config.checkpoint:
        ensure_writable(config.checkpoint)
        if config.checkpoint.exists():
            read_checkpoint(config.checkpoint, config, rows)


def _wait_for_one(running: dict[int, subprocess.Popen], deadline: float) -> int | None:
    """The number of a process that has ended, or None at the deadline."""
    while (seconds_left := deadline - time.monotonic()) > 0:
        for number, process in running.items():
            if process.poll() is not None:
                return number
        alone = next(iter(running.values())) if len(running) == 1 else None
        with contextlib.suppress(subprocess.TimeoutExpired):
            # The kernel wakes this up when a single process ends; several are looked at every fifth of a second.
            alone.wait(seconds_left) if alone else time.sleep(min(seconds_left, 0.2))
    return None


def _signal_all(processes: Iterable[psutil.Process], number: int) -> None:
    for process in processes:
        try:
            process.send_signal(number)
            # A stopped process acts on SIGTERM only once it goes on.
            process.send_signal(signal.SIGCONT)
        except psutil.NoSuchProcess:
            continue


def exit_on_signals() -> None:
    """Leave by SystemExit on the signals that ask for it, so that what was started is stopped."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _exit_on_signal)


def _exit_on_signal(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _enter_private_network() -> None:
    """Start this program anew in a network namespace of its own, or say that there is none."""
    if machine.has_private_network():
        _raise_loopback()
        return
    if not shutil.which("unshare") or subprocess.run([*_UNSHARE, "true"], capture_output=True).returncode:
        print(
            "lockstep: note: no private network (unshare --user --net isn't allowed here), so wire bytes aren't known."
        )
        return
    os.environ[machine.PRIVATE_NETWORK] = "1"
    os.execvp("unshare", [*_UNSHARE, sys.executable, "-m", "common.launch", *sys.argv[1:]])


def _raise_loopback() -> None:
    """Switch on the interface lo, which a new network namespace has switched off (netdevice(7))."""
    get_flags, set_flags, up = 0x8913, 0x8914, 0x1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        [flags] = struct.unpack("16xh14x", fcntl.ioctl(control, get_flags, request))
        fcntl.ioctl(control, set_flags, struct.pack("16sh14x", b"lo", flags | up))


def free_ports(count: int) -> list[int]:
    """So many different TCP ports that nobody listens on."""
    with contextlib.ExitStack() as probes:
        sockets = [probes.enter_context(socket.socket()) for _ in range(count)]
        for probe in sockets:
            probe.bind(("", 0))
        return [probe.getsockname()[1] for probe in sockets]


if __name__ == "__main__":
    exit_with_one_line(main)
