"""Groups of processes: started side by side, ended together at a deadline or a signal, none left behind."""

import contextlib
import ctypes
import faulthandler
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FrameType
from typing import IO, NoReturn

import psutil

from common.errors import REFUSED_STATUS, LaunchFailedError, UserError, print_failure, print_note
from common.launching.exit_cause import ENDED_WITH_SIGNAL, ENDED_WITH_STATUS, STOPPED_BY_SIGNAL, TIMED_OUT_STATUS
from common.paths import ROOT

REPORT_SECONDS = 1.0
"""What a process leaves itself before the deadline to say why it ends."""

_GRACE_SECONDS, _LOOK_SECONDS = 5.0, 0.1
_KILL_SECONDS = 5.0
"""What the kernel has for ending what was killed: a process that waits for a device ends when that answers."""

_MOST_RESTARTS, _RESTART_PAUSE_SECONDS = 3, 1.0
_LEAVE = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # From linux/prctl.h.


@dataclass(frozen=True)
class Outcome:
    """How a group of processes ended."""

    status: int
    """The first exit status that isn't 0, or 0; negative for a signal; TIMED_OUT_STATUS at the deadline."""
    timed_out: bool = False
    failed: int | None = None
    """Number of the command that ended with that status."""
    stopped: int | None = None
    """Number of a command that a signal had stopped by then: those that wait for it end first."""
    noted_boottime_ns: int = field(default_factory=lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME))
    """When that was seen, before what still ran was ended, by the clock that counts from boot."""


def run_group(
    commands: Sequence[Sequence[str]],
    environment: Mapping[str, str],
    deadline_seconds: float,
    waited_for: int | None = None,
    restarted: Collection[int] = (),
    streams: Mapping[str, IO[str] | int] | None = None,
    folder: Path = ROOT,
) -> Outcome:
    """Run the commands side by side until all have ended, one has failed or the deadline is over; then stop everything.

    With `waited_for`, only the first so many have to end by themselves: the others serve them. A command whose number
    is in `restarted` is started again when a signal ends it, as a cluster's scheduler would: a second later, and three
    times at most. `streams` take the place of this process's own `stdin`, `stdout` and `stderr`.

    Everything means every descendant of this process, those included that left their process group or lost their
    parent: this process adopts them (prctl(2), PR_SET_CHILD_SUBREAPER), so it should have no other children. Where this
    process is killed, the kernel asks those that it has started to end. Raises LaunchFailedError where some can't be
    ended.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    deadline, streams = time.monotonic() + deadline_seconds, streams or {}
    running: dict[int, subprocess.Popen[bytes]] = {}
    restarts_left = dict.fromkeys(restarted, _MOST_RESTARTS)

    def start(number: int) -> None:
        running[number] = subprocess.Popen(
            commands[number],
            cwd=folder,
            env=environment,
            start_new_session=True,
            stdin=streams.get("stdin"),
            stdout=streams.get("stdout"),
            stderr=streams.get("stderr"),
            preexec_fn=partial(_prctl, _PR_SET_PDEATHSIG, signal.SIGTERM),
        )

    try:
        for number in range(len(commands)):
            start(number)
        first = set(range(len(commands) if waited_for is None else waited_for))
        while first & set(running):
            ended = _wait_for_one(running, deadline)
            if ended is None:
                return Outcome(TIMED_OUT_STATUS, timed_out=True)
            status = running.pop(ended).wait()
            if status < 0 and restarts_left.get(ended):
                restarts_left[ended] -= 1
                print_note(f"process {ended} was ended by signal {-status} and is started again.")
                time.sleep(_RESTART_PAUSE_SECONDS)
                start(ended)
            elif status:
                return Outcome(status, failed=ended, stopped=_stopped_one(running))
        return Outcome(0)
    except FileNotFoundError as error:
        raise UserError(f"{error.filename} is missing: delete the folder .nox and run nox again.") from error
    finally:
        with signals_held():
            end_all(lambda: psutil.Process().children(recursive=True))


def run_tasks(
    tasks: Mapping[str, Mapping[str, str]],
    environment: dict[str, str],
    deadline_seconds: float,
    waited_for: int | None = None,
    restarted: Collection[int] = (),
) -> NoReturn:
    """Run this process's command line again for each task, and exit as the tasks did.

    This is for frameworks without a launcher. `tasks` has the environment variables of each by its name, such as
    `worker 1`. The other arguments are those of `run_group`. Raises LaunchFailedError where a task failed.
    """
    exit_on_signals()
    # Where a program runs the script in its place, that program runs in all tasks.
    command = [sys.executable, *sys.orig_argv[1:]]
    commands = [["env", *map("=".join, variables.items()), *command] for variables in tasks.values()]
    outcome = run_group(commands, environment, deadline_seconds, waited_for, restarted)
    if outcome.timed_out:
        print_failure(f"the deadline of {deadline_seconds:g} s ended it.")
    if outcome.failed is None or outcome.status == REFUSED_STATUS:
        sys.exit(outcome.status)
    raise LaunchFailedError(first_to_end(outcome, [*tasks]))


def first_to_end(outcome: Outcome, names: Sequence[str]) -> str:
    """The sentence on a group that failed: which of the commands, by these names, ended or was stopped first."""
    assert outcome.failed is not None, "A group that its deadline ended has nobody to name."
    ended = f"{ENDED_WITH_SIGNAL} {-outcome.status}" if outcome.status < 0 else f"{ENDED_WITH_STATUS} {outcome.status}"
    before = "" if outcome.stopped is None else f"{names[outcome.stopped]} {STOPPED_BY_SIGNAL}, and then "
    return f"{before}{names[outcome.failed]} {ended}, so all processes were ended."


def _wait_for_one(running: Mapping[int, subprocess.Popen[bytes]], deadline: float) -> int | None:
    """The number of a process that has ended, or None at the deadline.

    The kernel wakes this up (pidfd_open(2)): looking from time to time would take turns with a worker on its core.
    Where several have ended by then, one that was killed comes first: the others may have ended for its loss.
    """
    numbers = {os.pidfd_open(process.pid): number for number, process in running.items()}
    try:
        with _signals_as_bytes() as signalled:
            while True:
                left = max(deadline - time.monotonic(), 0)
                readable, _, _ = select.select([*numbers, signalled], [], [], left)
                ended = [each for each in readable if each in numbers]
                if ended or not readable:
                    break
                os.read(signalled, select.PIPE_BUF)
        first = next((descriptor for descriptor in (*filter(_was_killed, ended), *ended)), None)
    finally:
        for descriptor in numbers:
            os.close(descriptor)
    return None if first is None else numbers[first]


@contextlib.contextmanager
def _signals_as_bytes() -> Generator[int]:
    """Yield a descriptor that gets a byte for every signal.

    A signal that comes just before `select`, or to another thread, doesn't interrupt it: the byte does.
    """
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    try:
        yield reading
    finally:
        signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)


def _was_killed(descriptor: int) -> bool:
    """Whether SIGKILL ended the process, which no process does to itself. It can still be waited for."""
    ended = os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOWAIT)
    return ended is not None and (ended.si_code, ended.si_status) == (os.CLD_KILLED, signal.SIGKILL)


def _stopped_one(running: Mapping[int, subprocess.Popen[bytes]]) -> int | None:
    """The number of a process that a signal has stopped, or None."""
    statuses = {number: psutil.Process(process.pid).status() for number, process in running.items()}
    return next((number for number, status in statuses.items() if status == psutil.STATUS_STOPPED), None)


def end_all(look: Callable[[], Sequence[psutil.Process]], grace_seconds: float | None = None) -> int:
    """End every process that `look` finds, then or meanwhile: SIGTERM, a few seconds to leave in order, then SIGKILL.

    With other `grace_seconds` they have so many to leave, and with 0 SIGKILL comes at once. Returns how many these
    were. Raises LaunchFailedError with the numbers of those that not even SIGKILL has ended.
    """
    grace_seconds = _GRACE_SECONDS if grace_seconds is None else grace_seconds
    begin, signalled = time.monotonic(), set[psutil.Process]()
    while remaining := look():
        waited = time.monotonic() - begin
        if waited > grace_seconds + _KILL_SECONDS:
            numbers = ", ".join(map(str, sorted(process.pid for process in remaining)))
            raise LaunchFailedError(
                f"Process {numbers} is still there after SIGKILL: see what it waits for, and end it before the next "
                "launch."
            )
        if waited >= grace_seconds:
            signal_all(remaining, signal.SIGKILL)
        else:
            signal_all(set(remaining) - signalled, signal.SIGTERM)
        signalled.update(remaining)
        psutil.wait_procs(remaining, timeout=_LOOK_SECONDS)
    return len(signalled)


def signal_all(processes: Iterable[psutil.Process], number: int) -> None:
    """Send a signal to those of the processes that are there, and have them act on it."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)
            # A stopped process acts on SIGTERM only once it goes on.
            process.send_signal(signal.SIGCONT)


@contextlib.contextmanager
def signals_held() -> Generator[None]:
    """Hold back the signals that ask this process to leave until the block is over, then act on the first of them.

    Whoever asks may ask twice, as Nox does, and the second signal would cut short what the first one began.
    """
    held: list[int] = []
    before = {number: signal.signal(number, lambda number, _frame: held.append(number)) for number in _LEAVE}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in held[:1]:
            signal.raise_signal(number)


def exit_on_signals() -> None:
    """Leave by SystemExit on the first of the signals that ask for it, so that what was started is stopped."""

    def leave(number: int, _frame: FrameType | None) -> None:
        # Another signal could only interrupt that.
        for each in _LEAVE:
            signal.signal(each, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in _LEAVE:
        signal.signal(number, leave)


def end_with_parent(parent: int) -> None:
    """Leave as on SIGTERM when the parent of this process number has ended, however it did.

    A change of credentials may clear this (prctl(2), PR_SET_PDEATHSIG): a program that makes one asks again.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        sys.exit(128 + signal.SIGTERM)


def end_at_deadline(deadline_seconds: float) -> None:
    """End this process at the deadline with one line, or with its stack where a framework keeps the lock for itself."""

    def end() -> None:
        print_failure(f"the deadline of {deadline_seconds:g} s ended it.")
        os._exit(TIMED_OUT_STATUS)

    timer = threading.Timer(deadline_seconds, end)
    timer.daemon = True
    timer.start()
    faulthandler.dump_traceback_later(deadline_seconds + REPORT_SECONDS, exit=True)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, value)


def free_ports(count: int) -> list[int]:
    """So many different TCP ports that nobody listens on."""
    with contextlib.ExitStack() as probes:
        sockets = [probes.enter_context(socket.socket()) for _ in range(count)]
        for probe in sockets:
            probe.bind(("", 0))
        return [probe.getsockname()[1] for probe in sockets]
