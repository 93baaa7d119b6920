"""Start one strategy as a user would, with a deadline, and stop all of its processes, always.

To start it: `python -m common.launching.launch STRATEGY --workers 4 --preset digits`.

The launch gets a network namespace of its own where the system lets an ordinary user make one: nothing outside reaches
the frameworks' servers, which listen on every interface, and the bytes of its loopback are its alone.
"""

import fcntl
import importlib.util
import os
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from common.contract import dataset
from common.contract.checkpoint import read_checkpoint
from common.contract.rows import share_of
from common.contract.task import Task
from common.declarations import catalogue
from common.declarations.arguments import parse_command_line
from common.declarations.strategy import Family, Launch, Launcher, Options, Strategy
from common.environments import inventory
from common.errors import NotInstalledError, UserError, exit_with_one_line
from common.files import ensure_writable
from common.launching.processes import TIMED_OUT_STATUS, end_with_parent, exit_on_signals, free_ports, run_group
from common.measurement import machine

ENDS_WITH = "LOCKSTEP_ENDS_WITH"
"""Environment variable with the number of the parent process whose end is to end this launch as well."""


class Program(Protocol):
    """What can be launched: a strategy, or a library of collectives."""

    name: str
    script: str
    family: Family
    launcher: Launcher

    @property
    def most_workers(self) -> int | None:
        """How many workers it can have; None: any number."""


class Limits(Protocol):
    """What every process of a launch keeps to."""

    threads: int
    deadline_seconds: float


_UNSHARE = ("unshare", "--user", "--map-root-user", "--net")


def python_for(program: Program) -> Path:
    """The Python of the program's environment: the one that Nox made, else this one where it has what it takes.

    Raises NotInstalledError when there is neither, with what went wrong where Nox tried.
    """
    name = program.family.environment
    if python := inventory.python_of(name):
        return python
    if importlib.util.find_spec(program.family.imports):
        return Path(sys.executable)
    raise NotInstalledError(f"{name} isn't installed: run `nox -s {name}` once, which makes its environment.")


def command_for(program: Program, workers: int, arguments: Sequence[str], port: int, options: Options) -> list[str]:
    """The command line that a user would type to start so many workers of the program.

    Raises UserError for a program that isn't installed or that can't have as many.
    """
    if program.most_workers and workers > program.most_workers:
        raise UserError(f"{program.name} distributes nothing: leave --workers out, or choose another strategy.")
    script = [program.script, *arguments]
    return program.launcher.command(Launch(python_for(program), script, workers, port, options))


def environment_for(program: Program, limits: Limits) -> dict[str, str]:
    """The environment variables of a launch on this machine: its own, and those that the launch sets."""
    return os.environ | settings_for(program, limits, "lo")


def settings_for(program: Program, limits: Limits, interface: str) -> dict[str, str]:
    """The environment variables that a launch sets: threads, and what the program's family needs.

    Its workers reach one another by the network `interface`.
    """
    common = {"OMP_NUM_THREADS": str(limits.threads), "PYTHONUNBUFFERED": "1"}
    return common | dict(program.family.settings(int(limits.deadline_seconds), limits.threads, interface))


def main(runner: str | None = None) -> None:
    """Run one strategy as the command line says; exits with its status, or 124 when the deadline ended it.

    A `runner` is a module that runs the strategy's script, whose path it gets as its first argument.
    """
    if parent := os.environ.get(ENDS_WITH):
        end_with_parent(int(parent))
    strategy, task, command = prepare(sys.argv[1:])
    if runner:
        script = command.index(strategy.script)
        command[script:script] = ["-m", runner]
    supervise(strategy, task, command)


def supervise(program: Program, limits: Limits, command: list[str]) -> None:
    """Run the command that starts a program; exits with its status, or 124 when the deadline ended it.

    It gets a private network where there can be one, and all of its processes are stopped.
    """
    if not program.launcher.is_one_of_several():
        _enter_private_network()
    exit_on_signals()
    outcome = run_group([command], environment_for(program, limits), limits.deadline_seconds)
    if outcome.timed_out:
        print(f"lockstep: {program.name} was ended by its deadline of {limits.deadline_seconds:g} s.", file=sys.stderr)
        sys.exit(TIMED_OUT_STATUS)
    sys.exit(outcome.status if outcome.status >= 0 else 128 - outcome.status)


def prepare(arguments: Sequence[str]) -> tuple[Strategy, Task, list[str]]:
    """The strategy that the launcher's arguments name, its task, and the command that starts it.

    Raises UserError for all that can be refused before anything is started.
    """
    if not arguments or arguments[0].startswith("-"):
        raise UserError(f"Name a strategy first: one of {', '.join(catalogue.strategies())}.")
    strategy, given = catalogue.find(arguments[0]), list(arguments[1:])
    task, options = parse_command_line(strategy, f"{strategy.name}: {strategy.summary}.", given)
    if strategy.launcher.is_one_of_several():
        return strategy, task, command_for(strategy, task.workers or 1, given, 0, options)
    workers = task.workers or strategy.most_workers or 2
    command = command_for(strategy, workers, [*given, "--workers", str(workers)], free_ports(1)[0], options)
    refuse_early(strategy, task, options, workers)
    return strategy, task, command


def refuse_early(strategy: Strategy, task: Task, options: Options, workers: int) -> None:
    """Try here what every worker will need, so that bad input is one line of ours and not a launcher's traceback.

    Raises UserError. The data set is in the cache afterwards.
    """
    gpus = len(machine.gpu_names())
    strategy.check(task, options, workers, gpus)
    if task.device == "gpu" and gpus < workers:
        raise UserError(f"--device gpu, but this machine has {gpus} GPUs for {workers} workers: leave --device out.")
    dataset.load(task)
    share = share_of(task, strategy.work, strategy.is_synchronous(options), 0, workers)
    if task.record:
        ensure_writable(task.record)
    if task.checkpoint:
        ensure_writable(task.checkpoint)
        if task.checkpoint.exists():
            read_checkpoint(task.checkpoint, task, share.global_batch)


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
    os.execvp("unshare", [*_UNSHARE, sys.executable, *sys.orig_argv[1:]])


def _raise_loopback() -> None:
    """Switch on the interface lo, which a new network namespace has switched off (netdevice(7))."""
    get_flags, set_flags, up = 0x8913, 0x8914, 0x1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh14x", b"lo", 0)
        [flags] = struct.unpack("16xh14x", fcntl.ioctl(control, get_flags, request))
        fcntl.ioctl(control, set_flags, struct.pack("16sh14x", b"lo", flags | up))


if __name__ == "__main__":
    exit_with_one_line(main)
