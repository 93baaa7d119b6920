"""Start a file of a user's own in a world of its own, hand out its assignment, and keep what it reports.

To start it, as `common.check.marks` does: `python -m common.check.world FOLDER`, with a `world.json` in the folder. The
file runs in a private network where there is one, with limits, and always ends. What it reports is stamped here.
"""

from common.launching import private_network

if __name__ == "__main__":
    # Before the other imports, which would be made twice.
    private_network.enter()

import contextlib
import dataclasses
import json
import math
import os
import re
import resource
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import psutil

from common.check.assignment import ROWS, SOCKET, STEP, Assigned
from common.check.training_file import PROCESSES, launchers
from common.contract import dataset, model
from common.contract.evidence import FIRST_STEPS
from common.contract.rows import Share, local_batch
from common.contract.task import Task
from common.declarations import catalogue
from common.declarations.strategy import PROCESS, Launch, Strategy
from common.errors import LaunchFailedError, UserError, exit_with_one_line
from common.launching import launch
from common.launching.inheritance import inherited
from common.launching.processes import (
    Outcome,
    end_with_parent,
    exit_on_signals,
    first_to_end,
    free_ports,
    run_group,
    signal_all,
)
from common.measurement import machine
from common.paths import ROOT
from common.records.header import Part

REPORTED = "reported.npz"
"""File of what was reported: losses, (processes, steps), weights, (processes, steps, elements), and of a step the
`seconds` and the bytes that were `sent`."""

CLOCKED_FROM = 4
"""Steps before the clock and the counter of bytes start."""

LATER_UPDATES = 3
"""Whose recipes are read beside the first ones: they are drawn when training is over."""

FEWEST_STEPS = FIRST_STEPS + LATER_UPDATES + CLOCKED_FROM

_GLANCE_SECONDS, _LOOK_SECONDS = 0.02, 0.25
"""From one look at the number of threads to the next, and from one look at all limits."""

_LEAVE_SECONDS = 5.0
"""What reading the last messages may take."""

_MOST_BYTES = 2**30
"""Of one file that is written, and of all files below the folder."""

_LIMITED = '(echo 4096 > /proc/sys/kernel/pid_max) 2> /dev/null; exec "$@"'
"""Limits the threads of a process namespace, which Linux can from 6.14 on, and becomes the program."""

_OWN_PROCESSES = ("unshare", "--pid", "--fork", "--kill-child", "sh", "-c", _LIMITED, "sh")
"""What gives a program a process namespace: whatever it has started ends with it (unshare(1))."""


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """What files are held to. Without these options: SGD on digits with 64 rows in each step."""

    workers: tuple[int, ...] = (1, 2, 4)
    """Numbers of workers to start the file with."""
    launcher: str | None = None
    """What starts it: a strategy's launcher, mpirun, processes (each with RANK, WORLD_SIZE, MASTER_ADDR and
    MASTER_PORT), or python, a single process that gets the rows of all workers; none: as its imports suggest."""
    rows: Literal["share", "whole"] = "share"
    """Each process gets its worker's share of a batch, or all get the whole one, to divide the model."""
    batch: int = 64
    """Rows per step of all workers together."""
    steps: int = 24
    """Steps to train."""
    learning_rate: float = 0.1
    """SGD's learning rate."""
    momentum: float = 0.5
    """SGD's momentum."""
    weight_decay: float = 0.001
    """SGD's weight decay."""
    seed: int | None = None
    """Seed of weights and rows; none: another one for each launch, which nobody can foresee."""
    deadline_seconds: float = 60.0
    """A launch is ended after this time."""
    memory_gigabytes: float = 8.0
    """As much may the processes of a launch take together."""
    processes: int = 64
    """As many may a launch have at a time."""
    count_bytes: bool = True
    """With --no-count-bytes a file may exchange by shared memory, where no bytes are sent."""

    def task(self) -> Task:
        """What is trained in one launch. Raises UserError for a value that can't be meant."""
        if self.steps < FEWEST_STEPS:
            raise UserError(f"--steps {self.steps}: give {FEWEST_STEPS} at least.")
        task = Task(
            batch=self.batch,
            steps=self.steps,
            warmup_steps=CLOCKED_FROM,
            window_steps=2,
            learning_rate=self.learning_rate,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            seed=secrets.randbelow(2**31) if self.seed is None else self.seed,
            deadline_seconds=self.deadline_seconds,
        )
        for workers in self.workers:
            local_batch(task, workers)
        return task


class World(Part, frozen=True, kw_only=True):
    """One launch of a file."""

    file: str
    workers: int
    launcher: str
    like: str
    """The strategy whose environment, settings and launcher it takes."""
    task: Task
    assignment: Assignment

    @property
    def is_whole(self) -> bool:
        """Whether each process gets the whole batch, as parts of one model do."""
        return self.assignment.rows == "whole"

    @property
    def process_count(self) -> int:
        """Processes that ask for rows."""
        return 1 if self.launcher == PROCESS.name else self.workers


class Desk:
    """Hands out the rows of each step, and keeps what comes back, by rank."""

    def __init__(self, world: World) -> None:
        self._world, self.name, self._data = world, f"lockstep-{secrets.token_hex(8)}", dataset.load(world.task)
        ranks, count = range(world.process_count), 1 if world.is_whole else world.process_count
        rows = world.task.batch // count
        self._shares = [Share(world.task.batch, 0 if world.is_whole else rank * rows, rows) for rank in ranks]
        self._addresses = [f"127.0.0.1:{port}" for port in free_ports(len(ranks))]
        self._locks = [threading.Lock() for _ in ranks]
        self.losses: list[list[float]] = [[] for _ in ranks]
        self.weights: list[list[np.ndarray]] = [[] for _ in ranks]
        self._moments: list[list[float]] = [[] for _ in ranks]
        self._bytes: list[int] = []
        self._serving: list[threading.Thread] = []

    def open(self) -> None:
        """Answer whoever connects from now on, in threads that end with this process."""
        listener = Listener(f"\0{self.name}", "AF_UNIX", backlog=64)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self) -> None:
        """Wait until everything has been read that was sent by processes that have ended."""
        for thread in self._serving:
            thread.join(_LEAVE_SECONDS)

    def _accept(self, listener: Listener) -> None:
        while True:
            self._serving.append(threading.Thread(target=self._serve, args=(listener.accept(),), daemon=True))
            self._serving[-1].start()

    def _serve(self, connection: Connection) -> None:
        rank = self._rank_of(connection)
        # A second connection of a rank, as of a process that it forked, gets nothing.
        if rank is None or not self._locks[rank].acquire(blocking=False):
            connection.close()
            return
        task, share, shapes = self._world.task, self._shares[rank], model.parameter_shapes(self._world.task)
        numbers = share.rows(len(self._data.train_labels), task.seed, 0, task.steps)
        sgd = task.learning_rate, task.momentum, task.weight_decay
        assigned = Assigned(rank, self._world.workers, self._addresses, shapes, task.steps, share.count, *sgd)
        initial = model.initial_weights(task)
        weights = np.concatenate([initial[name].ravel() for name in shapes]).tobytes()
        try:
            connection.send_bytes(json.dumps(dataclasses.asdict(assigned)).encode())
            connection.send_bytes(weights)
            while True:
                message = connection.recv_bytes(16 + len(weights))
                if message == ROWS:
                    batch = next(numbers)
                    connection.send_bytes(self._data.train_features[batch].tobytes())
                    connection.send_bytes(self._data.train_labels[batch].tobytes())
                elif message.startswith(STEP) and len(self.losses[rank]) < task.steps:
                    self._note(rank, message[len(STEP) :])
        except (EOFError, OSError, StopIteration, ValueError):
            # It has ended, or sent what no assignment sends.
            return
        finally:
            connection.close()

    def _note(self, rank: int, reported: bytes) -> None:
        self._moments[rank].append(time.monotonic())
        self.losses[rank].append(float(np.frombuffer(reported[:8], np.float64)[0]))
        self.weights[rank].append(np.frombuffer(reported[8:], np.float32))
        steps = len(self.losses[rank])
        if rank == 0 and steps in (CLOCKED_FROM, self._world.task.steps) and machine.has_private_network():
            self._bytes.append(machine.bytes_sent("lo"))

    def _rank_of(self, connection: Connection) -> int | None:
        """The rank of the process at the other end, by the variables that its launcher gave it."""
        if self._world.process_count == 1:
            return 0
        with socket.socket(fileno=os.dup(connection.fileno())) as other:
            credentials = other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        try:
            pid, *_ = struct.unpack("3i", credentials)
            task = launchers()[self._world.launcher].task_in(psutil.Process(pid).environ()) or ""
        except psutil.Error:
            return None
        rank = re.fullmatch(r"rank (\d+)", task)
        return int(rank[1]) if rank and int(rank[1]) < self._world.process_count else None

    def lack(self) -> str:
        """What is missing of what was to be reported, in a sentence; empty: nothing."""
        done, steps = [len(losses) for losses in self.losses], self._world.task.steps
        if max(done) == 0:
            return "It ended without a step: call assignment.step after each one."
        if min(done) < steps:
            rank = done.index(min(done))
            return f"Rank {rank} reported {done[rank]} of {steps} steps."
        wrong = [rank for rank, own in enumerate(self.weights) if not np.isfinite(own[-1]).all()]
        return f"Rank {wrong[0]}'s weights aren't finite: look at the rate, and at what is divided by." if wrong else ""

    def keep(self, path: Path) -> None:
        """Keep what was reported, with the time and the bytes of a step; NaN: there is no private network."""
        clocked = self._world.task.steps - CLOCKED_FROM
        seconds = max(own[-1] - own[CLOCKED_FROM - 1] for own in self._moments) / clocked
        sent = (max(self._bytes) - min(self._bytes)) / clocked if self._bytes else math.nan
        np.savez(path, seconds=seconds, sent=sent, losses=np.array(self.losses), weights=np.array(self.weights))


def commands(world: World, like: Strategy, script: Path) -> list[list[str]]:
    """The command lines that start the file: one, or one for each process, with RANK and the like."""
    python, ports = launch.python_for(like), free_ports(2)
    launch_of_file = Launch(python, [str(script)], world.workers, ports[0], like.options())
    command = launchers()[world.launcher].command(launch_of_file)
    if world.launcher != PROCESSES.name:
        return [command]
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ports[1]), "WORLD_SIZE": str(world.workers)}
    meeting["LOCAL_WORLD_SIZE"] = meeting["WORLD_SIZE"]
    return [
        ["env", *map("=".join, (meeting | {"RANK": str(rank), "LOCAL_RANK": str(rank)}).items()), *command]
        for rank in range(world.workers)
    ]


def run(world: World, folder: Path) -> None:
    """Run the file, and leave what it reports in the folder. Raises LaunchFailedError where it doesn't end well."""
    like, desk = catalogue.find(world.like), Desk(world)
    run_folder = folder / "own"
    run_folder.mkdir()
    script = Path(shutil.copy(world.file, run_folder))
    desk.open()
    environment = inherited() | launch.settings_for(like, world.task, "lo")
    environment |= {SOCKET: desk.name, "PYTHONPATH": str(ROOT), "TMPDIR": str(run_folder), "HOME": str(run_folder)}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1"}
    started = commands(world, like, script)
    if machine.has_private_network() and not subprocess.run([*_OWN_PROCESSES, "true"], capture_output=True).returncode:
        started = [[*_OWN_PROCESSES, *command] for command in started]
    for kind, most in ((resource.RLIMIT_FSIZE, _MOST_BYTES), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    guard = Guard(world, run_folder)
    try:
        outcome = run_group(started, environment, world.task.deadline_seconds, folder=run_folder)
        desk.close()
        # A framework may abort while its process ends. That is no part of a training whose every step was reported.
        is_over = not outcome.timed_out and not desk.lack()
        reason = guard.reason or ("" if is_over else _reason(world, outcome))
    except LaunchFailedError as error:
        reason = guard.reason or str(error)
    if reason := reason or desk.lack():
        raise LaunchFailedError(reason)
    desk.keep(folder / REPORTED)


def _reason(world: World, outcome: Outcome) -> str:
    """Why it didn't end well; empty: it did. What the log tells, `common.check.marks` reads there."""
    if outcome.timed_out:
        return f"It was ended by its deadline of {world.task.deadline_seconds:g} s."
    if outcome.failed is None:
        return ""
    ranks = [f"rank {rank}" for rank in range(world.workers)]
    names = ranks if world.launcher == PROCESSES.name else [world.launcher]
    return first_to_end(outcome, names).capitalize()


class Guard:
    """Looks from time to time whether the processes below this one keep to their limits, and ends them if not."""

    def __init__(self, world: World, folder: Path) -> None:
        self._most, self._folder = world.assignment, folder
        self.reason = ""
        """What they took too much of, in a sentence; empty: nothing."""
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        this, before, looked = psutil.Process(), _threads(), 0.0
        while not self.reason:
            time.sleep(_GLANCE_SECONDS)
            # Forks without end fill a machine within a second.
            if time.monotonic() - looked > _LOOK_SECONDS or _threads() - before > self._most.processes:
                self.reason = self._excess(this.children(recursive=True))
                before, looked = _threads(), time.monotonic()
        # First those whose end is that of their process namespace.
        signal_all(this.children(), signal.SIGKILL)
        signal_all(this.children(recursive=True), signal.SIGKILL)

    def _excess(self, below: Sequence[psutil.Process]) -> str:
        if len(below) > self._most.processes:
            return f"It had more than {self._most.processes} processes: start as many as there are workers."
        memory = written = 0
        # What is gone meanwhile takes nothing.
        for process in below:
            with contextlib.suppress(psutil.Error):
                memory += process.memory_info().rss
        for path in self._folder.rglob("*"):
            with contextlib.suppress(OSError):
                written += 512 * path.lstat().st_blocks
        if memory > self._most.memory_gigabytes * 2**30:
            return f"It took more than {self._most.memory_gigabytes:g} GiB of memory."
        return f"It wrote more than {_MOST_BYTES / 2**30:g} GiB." if written > _MOST_BYTES else ""


def _threads() -> int:
    """As many threads as all programs of the machine have, by proc_loadavg(5)."""
    return int(Path("/proc/loadavg").read_text(encoding="ascii").split()[3].partition("/")[2])


def main() -> None:
    """Run the world of the folder that the command line names."""
    parent = os.environ.get(launch.ENDS_WITH)
    if parent:
        end_with_parent(int(parent))
    folder = Path(sys.argv[1])
    exit_on_signals()
    world = msgspec.json.decode((folder / "world.json").read_bytes(), type=World)
    # The seed is nothing that the file may know.
    (folder / "world.json").unlink()
    run(world, folder)


if __name__ == "__main__":
    exit_with_one_line(main)
