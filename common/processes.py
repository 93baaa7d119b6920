"""Groups of processes: started side by side, ended together at a deadline or a signal, none left behind."""

import contextlib
import ctypes
import faulthandler
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from types import FrameType

import psutil

from common.catalogue import ROOT
from common.errors import UserError

TIMED_OUT_STATUS = 124
"""Exit status of a launch that its deadline ended, as timeout(1) gives."""

REPORT_SECONDS = 1.0
"""What a process leaves itself before the deadline to say why it ends."""

_GRACE_SECONDS = 5.0


@dataclass(frozen=True)
class Outcome:
    """How a group of processes ended."""

    status: int
    """The first exit status that isn't 0, or 0; negative for a signal."""
    timed_out: bool = False
    """Whether the deadline ended it."""
    failed: int | None = None
    """Which command ended with that status."""


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
    deadline = time.monotonic() + deadline_seconds
    running: dict[int, subprocess.Popen] = {}

    def start(number: int) -> None:
        running[number] = subprocess.Popen(commands[number], cwd=ROOT, env=environment, start_new_session=True)

    try:
        for number in range(len(commands)):
            start(number)
        first = set(range(len(commands) if waited_for is None else waited_for))
        while first & set(running):
            ended = _wait_for_one(running, deadline)
            if ended is None:
                return Outcome(0, timed_out=True)
            status = running.pop(ended).returncode
            if status < 0 and ended in restarted:
                print(f"lockstep: note: process {ended} was ended by signal {-status} and is started again.")
                start(ended)
            elif status:
                return Outcome(status, failed=ended)
        return Outcome(0)
    except FileNotFoundError as error:
        raise UserError(f"{error.filename} is missing: delete the folder .nox and run nox again.") from error
    finally:
        stop_descendants()


def stop_descendants() -> None:
    """End every descendant of this process: SIGTERM, a few seconds to leave in order, then SIGKILL."""
    deadline = time.monotonic() + _GRACE_SECONDS
    _signal_all(psutil.Process().children(recursive=True), signal.SIGTERM)
    while remaining := psutil.Process().children(recursive=True):
        if time.monotonic() > deadline:
            _signal_all(remaining, signal.SIGKILL)
        psutil.wait_procs(remaining, timeout=0.2)


def end_at_deadline(deadline_seconds: float) -> None:
    """End this process at the deadline with one line, or with its stack where a framework keeps the lock for itself."""

    def end() -> None:
        print(f"lockstep: failed: the deadline of {deadline_seconds:g} s ended it.", file=sys.stderr, flush=True)
        os._exit(TIMED_OUT_STATUS)

    timer = threading.Timer(deadline_seconds, end)
    timer.daemon = True
    timer.start()
    faulthandler.dump_traceback_later(deadline_seconds + REPORT_SECONDS, exit=True)


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


def free_ports(count: int) -> list[int]:
    """So many different TCP ports that nobody listens on."""
    with contextlib.ExitStack() as probes:
        sockets = [probes.enter_context(socket.socket()) for _ in range(count)]
        for probe in sockets:
            probe.bind(("", 0))
        return [probe.getsockname()[1] for probe in sockets]
