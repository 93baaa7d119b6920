"""A launch's work on one host: commands that end with their lifeline, a folder for their files, and a sweep."""

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

import psutil

from common.errors import UserError, print_failure
from common.files import is_full
from common.launching.exit_cause import exit_status
from common.launching.inheritance import inherited
from common.launching.places.place import LOST_STATUS, print_answer
from common.launching.processes import end_all, first_to_end, run_group

LAUNCH = "LOCKSTEP_LAUNCH"
"""Environment variable with the launch that a process belongs to, by which a sweep finds it."""

FOLDER = "{folder}"
"""What stands in commands and environment variables for the path of the launch's folder on its host."""

SCRATCH = Path("/var/tmp")
"""Where the folder is made: not in memory, as /tmp may be, and not on a disk that hosts share."""

_PREFIX = "lockstep"
_ROOM_BYTES = 2**20
_HEARTBEATS = 3
"""So many may be missing."""


def run(
    lifeline: IO[bytes],
    launch: str,
    commands: Sequence[Sequence[str]],
    environment: Mapping[str, str],
    deadline_seconds: float,
    heartbeat_seconds: float | None = None,
) -> int:
    """Answer with the launch's folder, then run the commands, whose output is this process's; returns the exit status.

    The folder is made where a command or a variable of the `environment`, which they get beside the agent's own, speaks
    of FOLDER. The commands end with the lifeline, as where that misses its heartbeats, if it has any. Then this process
    leaves by SystemExit, and the folder with it. Where the commands ended before, well or not, it stays for `collect`.
    Raises UserError where there can't be one.
    """
    main_thread = threading.get_ident()

    def leave_with_lifeline() -> None:
        patience = heartbeat_seconds and _HEARTBEATS * heartbeat_seconds
        while select.select([lifeline], [], [], patience)[0] and lifeline.read(4096):
            pass
        # To the main thread, whose wait for the commands it has to break off.
        signal.pthread_kill(main_thread, signal.SIGTERM)

    threading.Thread(target=leave_with_lifeline, daemon=True).start()
    words = [*environment.values(), *(word for command in commands for word in command)]
    folder = make_folder(launch) if any(FOLDER in word for word in words) else None
    try:
        print_answer({"folder": folder and str(folder)})
        variables = {name: value.replace(FOLDER, str(folder)) for name, value in environment.items()}
        outcome = run_group(
            [[word.replace(FOLDER, str(folder)) for word in command] for command in commands],
            inherited() | variables | {LAUNCH: launch},
            deadline_seconds,
            # What ssh itself prints on its other output tells why a connection ended, so nothing else is there.
            streams={"stdin": subprocess.DEVNULL, "stdout": sys.stdout, "stderr": subprocess.STDOUT},
        )
    except BaseException:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if outcome.status < 0 or outcome.stopped is not None:
        # No command can say this of itself. Among the commands' output, where whoever reads the launch's log finds it.
        numbers = range(1, len(commands) + 1)
        print_failure(first_to_end(outcome, [f"process {number} of {len(commands)}" for number in numbers]), sys.stdout)
    return min(exit_status(outcome.status), LOST_STATUS - 1)


def make_folder(launch: str) -> Path:
    """A new folder for the launch's files. Raises UserError, with this host's name, where there is no room for any."""
    folder = None
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}-{launch}-", dir=SCRATCH))
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, _ROOM_BYTES)
    except OSError as error:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
        remedy = "make room there" if is_full(error) else "make it a folder you may write in"
        raise UserError(
            f"{socket.gethostname()} can't keep files in {SCRATCH} ({error.strerror}): {remedy}."
        ) from error
    return folder


def collect(folder: str, names: Iterable[str]) -> dict[str, bytes]:
    """Those of these files that are in a launch's folder, by name; the folder is gone then.

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
    return files


def sweep(launch: str) -> int:
    """End this user's processes of a launch on this host, and remove its folders; returns how many processes it was."""
    # Whoever runs the sweep may belong to the launch itself, or be below a process of it.
    spared = {os.getpid(), *(process.pid for process in psutil.Process().parents())}

    def belongs(process: psutil.Process) -> bool:
        try:
            return process.uids().real == os.getuid() and process.environ().get(LAUNCH) == launch
        except (psutil.Error, OSError):  # It has ended meanwhile.
            return False

    # Looked up anew, since a process that has ended may wait for its parent for ever.
    count = end_all(lambda: [each for each in psutil.process_iter() if each.pid not in spared and belongs(each)])
    for folder in SCRATCH.glob(f"{_PREFIX}-{launch}-*"):
        shutil.rmtree(folder, ignore_errors=True)
    return count
