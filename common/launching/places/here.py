"""This machine: what is started on it, and ended with all that is below it."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from common.errors import LaunchFailedError
from common.launching.processes import KILL_SECONDS, signal_all, signals_held, what_remains
from common.paths import ROOT

STOP_SECONDS = 30.0
"""What a launch has for ending in order: seconds of patience with each of its processes."""


@dataclass(frozen=True)
class Here:
    """This machine, by the code of this checkout or of another; the interface is `Place`."""

    root: Path = ROOT

    def start(self, words: Sequence[str], **streams: object) -> subprocess.Popen[bytes]:
        """Start Python with these words in the checkout, in a process group of its own."""
        # psutil's waits without looking from time to time, which would take turns with a worker on its core.
        return psutil.Popen([sys.executable, *words], cwd=self.root, start_new_session=True, **streams)

    def end(self, process: subprocess.Popen[bytes]) -> None:
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
            if remaining := [each for each in psutil.wait_procs(tree, timeout=KILL_SECONDS)[1] if _runs(each)]:
                raise LaunchFailedError(what_remains(remaining))


def _runs(process: psutil.Process) -> bool:
    """Whether it is more than an entry that waits for its parent, which may never ask."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
