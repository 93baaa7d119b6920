"""A launch's work on one host: commands that end with their lifeline, a folder for their files, and a sweep."""

import base64
import errno
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from common.errors import UserError
from common.launching.ending import TIMED_OUT_STATUS, exit_status
from common.launching.places.place import LOST_STATUS
from common.launching.processes import run_group, signal_all

LAUNCH = "LOCKSTEP_LAUNCH"
"""Environment variable with the launch that a process belongs to, by which a sweep finds it."""

FOLDER = "{folder}"
"""What stands in commands and environment variables for the path of the launch's folder on its host."""

SCRATCH = Path("/var/tmp")
"""Where the folder is made: not in memory, as /tmp may be, and not on a disk that hosts share."""

_PREFIX = "lockstep"
_ROOM_BYTES = 2**20
_GRACE_SECONDS = 5.0
_LOOK_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a host is to run for a launch."""

    launch: str
    """Names the launch, on all hosts; letters, digits, '-' and '_'."""
    commands: list[list[str]]
    environment: Mapping[str, str]
    """Variables that the commands get beside the agent's own."""
    deadline_seconds: float
    waited_for: int | None = None
    """How many of the commands, from the first, have to end by themselves, as in `run_group`; None: all."""
    folder: bool = False
    """Whether the launch has a folder on this host."""


def run(order: Order, lifeline: IO[bytes], answer: Callable[[dict[str, object]], None]) -> int:
    """Answer with the folder, then run the commands, whose output is this process's; returns the exit status.

    They end with the lifeline, and then this process leaves by SystemExit, and the folder with it. Where the commands
    ended before, well or not, it stays for `collect`. Raises UserError where there can't be one.
    """
    threading.Thread(target=_leave_at_end, args=(lifeline,), daemon=True).start()
    folder = make_folder(order.launch) if order.folder else None
    try:
        answer({"folder": folder and str(folder)})
        environment = os.environ | _in_folder(order.environment, folder) | {LAUNCH: order.launch}
        commands = [[_word(word, folder) for word in command] for command in order.commands]
        # What ssh itself prints on its other output tells why a connection ended, so nothing else is there.
        streams = {"stdin": subprocess.DEVNULL, "stdout": sys.stdout, "stderr": subprocess.STDOUT}
        outcome = run_group(commands, environment, order.deadline_seconds, order.waited_for, streams=streams)
    except BaseException:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return TIMED_OUT_STATUS if outcome.timed_out else min(exit_status(outcome.status), LOST_STATUS - 1)


def make_folder(launch: str) -> Path:
    """A new folder for the launch's files. Raises UserError, with this host's name, where there is no room for any."""
    _check(launch)
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}-{launch}-", dir=SCRATCH))
    except OSError as error:
        raise _no_room(error) from error
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, _ROOM_BYTES)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise _no_room(error) from error
    return folder


def collect(folder: str, names: Iterable[str]) -> dict[str, object]:
    """Those of these files that are in a launch's folder, by name and in base64; the folder is gone then.

    Raises UserError where there is no such folder, or a file in it can't be read.
    """
    path = Path(folder)
    if path.parent != SCRATCH or not path.name.startswith(f"{_PREFIX}-"):
        raise UserError(f"{folder} is no launch's folder: name one that `run` has answered with.")
    try:
        present = {each.name for each in path.iterdir() if each.is_file()}
        files = {name: Path(path, name).read_bytes() for name in names if name in present}
    except OSError as error:
        raise UserError(
            f"{socket.gethostname()}: the launch's files are gone or can't be read ({error}): leave {SCRATCH} alone."
        ) from error
    shutil.rmtree(path, ignore_errors=True)
    return {name: base64.b64encode(content).decode() for name, content in files.items()}


def sweep(launch: str) -> int:
    """End this user's processes of a launch on this host, and remove its folders; returns how many processes it was.

    SIGTERM, a few seconds to leave in order, then SIGKILL; those too that were started meanwhile.
    """
    _check(launch)
    told: set[psutil.Process] = set()
    begin = time.monotonic()
    # Looked up anew, since a process that has ended may wait for its parent for ever.
    while found := _processes_of(launch):
        waited = time.monotonic() - begin
        if waited > _GRACE_SECONDS:
            signal_all(found, signal.SIGKILL)
        else:
            signal_all(set(found) - told, signal.SIGTERM)
        told.update(found)
        if waited > 2 * _GRACE_SECONDS:
            break
        psutil.wait_procs(found, timeout=_LOOK_SECONDS)
    for folder in SCRATCH.glob(f"{_PREFIX}-{launch}-*"):
        shutil.rmtree(folder, ignore_errors=True)
    return len(told)


def _processes_of(launch: str) -> list[psutil.Process]:
    # Whoever runs the sweep may belong to the launch itself, or be below a process of it.
    spared = {os.getpid(), *(process.pid for process in psutil.Process().parents())}
    return [process for process in psutil.process_iter() if process.pid not in spared and _belongs(process, launch)]


def _belongs(process: psutil.Process, launch: str) -> bool:
    """Whether it is this user's, and was started for the launch."""
    try:
        return process.uids().real == os.getuid() and process.environ().get(LAUNCH) == launch
    except (psutil.Error, OSError):  # It has ended meanwhile.
        return False


def _leave_at_end(lifeline: IO[bytes]) -> None:
    """Ask this process to leave when the lifeline ends."""
    while lifeline.read(4096):
        pass
    # To the main thread, whose wait for the commands it has to break off.
    signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)


def _in_folder(environment: Mapping[str, str], folder: Path | None) -> dict[str, str]:
    return {name: _word(value, folder) for name, value in environment.items()}


def _word(word: str, folder: Path | None) -> str:
    return word.replace(FOLDER, str(folder)) if folder else word


def _check(launch: str) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_-]+", launch):
        raise UserError(f"{launch!a} can't name a launch: use letters, digits, '-' and '_'.")


def _no_room(error: OSError) -> UserError:
    remedy = "make room there" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "make it a folder you may write in"
    return UserError(f"{socket.gethostname()} can't keep files in {SCRATCH} ({error.strerror}): {remedy}.")
