"""This machine: Python is started on it, and ended with all that is below it."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from common.errors import LaunchFailedError
from common.launching.exit_cause import TIMED_OUT_STATUS
from common.launching.launch import ENDS_WITH
from common.launching.processes import KILL_SECONDS, signal_all, signals_held, what_remains

STOP_SECONDS = 30.0
"""What a launch has for ending in order: seconds of patience with each of its processes."""


def start(
    arguments: Sequence[str], root: Path, log_path: Path, deadline_seconds: float, variables: Mapping[str, str]
) -> int:
    """Exit status of Python with these arguments in `root`; its output goes to the log. What it started ends, always.

    `variables` are set beside this process's own. Where this process is killed, the launch ends as well. Raises
    LaunchFailedError where something of it is left.
    """
    with log_path.open("wb") as log:
        # psutil's waits without looking from time to time, which would take turns with a worker on its core.
        process = psutil.Popen(
            [sys.executable, *arguments],
            cwd=root,
            env={**os.environ, ENDS_WITH: str(os.getpid()), **variables},
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            status = process.wait(deadline_seconds + STOP_SECONDS)
            assert status is not None, "It is a child of this process."
            return int(status)
        except psutil.TimeoutExpired:
            return TIMED_OUT_STATUS
        finally:
            end(process)


def end(process: psutil.Popen) -> None:
    """End the process in order, or else kill it with all below it.

    Raises LaunchFailedError where some of them are left all the same.
    """
    with signals_held():
        if process.poll() is not None:
            return
        process.terminate()
        if not psutil.wait_procs([process], timeout=STOP_SECONDS)[1]:
            return
        # Whoever is below can be found as long as the process is there.
        tree = [process, *process.children(recursive=True)]
        signal_all(tree, signal.SIGKILL)
        remaining: list[psutil.Process] = []
        for each in psutil.wait_procs(tree, timeout=KILL_SECONDS)[1]:
            # A zombie is an entry that waits for its parent, which may never ask.
            with suppress(psutil.NoSuchProcess):
                remaining += [each] if each.status() != psutil.STATUS_ZOMBIE else []
        if remaining:
            raise LaunchFailedError(what_remains(remaining))
