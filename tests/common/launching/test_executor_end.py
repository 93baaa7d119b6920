"""common/launching/executor.py: what is started on this machine ends with all below it, or is named."""

import subprocess
import sys

import psutil
import pytest

from common.errors import LaunchFailedError
from common.launching import executor
from tests.launching import is_running, wait_for

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
# Below it is one that has left its process group.
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def stubborn(monkeypatch):
    """A launcher that ignores SIGTERM, and what it has started."""
    monkeypatch.setattr(executor, "STOP_SECONDS", 0.1)
    process = psutil.Popen([sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE)
    child = psutil.Process(int(process.stdout.readline()))
    yield process, child
    for each in (child, process):
        if each.is_running():
            each.kill()
    process.stdout.close()
    process.wait()


def test_what_ignores_sigterm_is_killed_with_all_below_it(stubborn):
    launcher, child = stubborn
    executor.end(launcher)
    assert launcher.returncode == -9
    wait_for(lambda: not is_running(child), seconds=5)


def test_what_not_even_sigkill_ends_is_named(stubborn, monkeypatch):
    """As where a process waits for a device."""
    monkeypatch.setattr(executor, "KILL_SECONDS", 0.1)
    monkeypatch.setattr(executor, "signal_all", lambda processes, number: None)
    launcher, child = stubborn
    first, second = sorted([launcher.pid, child.pid])
    with pytest.raises(LaunchFailedError, match=f"^Process {first}, {second} is still there after SIGKILL: "):
        executor.end(launcher)


def test_what_has_ended_by_itself_is_left_alone():
    process = psutil.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    assert process.wait(30) == 3
    executor.end(process)
    assert process.returncode == 3
