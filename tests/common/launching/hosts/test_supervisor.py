"""common/launching/hosts/supervisor.py: a launch on a host ends with its lifeline, a signal or a sweep, and leaves
nothing.

What its commands get and what comes back of their files is in test_ranks.py.
"""

import os
import signal
import subprocess
import sys
import time

import pytest

from common.launching.hosts import supervisor
from common.launching.hosts.supervisor import LAUNCH
from tests.launching import is_running

SLEEPER = ["sh", "-c", "echo $$; exec sleep 600"]


@pytest.fixture
def order(agent):
    """A function that starts commands by the agent's `run`."""

    def start(*commands, **changes):
        values = {"launch": "test", "commands": list(commands), "environment": {}, "deadline_seconds": 60}
        return agent("run", **values | changes)

    return start


def left_in(tmp_path):
    return sorted(path.name for path in (tmp_path / "scratch").iterdir())


@pytest.mark.parametrize("end", [lambda process: process.stdin.close(), lambda process: process.send_signal(15)])
def test_all_ends_with_the_lifeline_or_by_a_signal(end, order, tmp_path):
    commands = [SLEEPER, ["sh", "-c", "setsid sleep 600 & echo $!; wait"]]
    process = order(*commands, environment={"WHERE": "{folder}"})
    assert process.answer()["folder"]
    pids = [int(process.stdout.readline()) for _ in range(2)]
    end(process)
    assert process.wait(30) == 128 + signal.SIGTERM
    assert not any(is_running(pid) for pid in pids)
    assert left_in(tmp_path) == []


def test_all_ends_where_the_lifeline_misses_its_heartbeats_though_it_stays_open(order):
    process = order(SLEEPER, heartbeat_seconds=0.3)
    process.answer()
    pid = int(process.stdout.readline())
    for _ in range(3):
        process.stdin.write("\n")
        process.stdin.flush()
        time.sleep(0.5)
    assert is_running(pid), "three may be missing"
    assert process.wait(30) == 128 + signal.SIGTERM
    assert not is_running(pid)


@pytest.mark.parametrize(
    ("shell", "status", "printed"),
    [
        (
            "kill -9 $$",
            128 + signal.SIGKILL,
            "{}\nlockstep: failed: process 2 of 2 ended with signal 9, so all processes were ended.\n",
        ),
        # What ssh ends with where it has lost the host.
        ("exit 255", 254, "{}\n"),
    ],
    ids=["a signal, which is told among what the commands print", "ssh's own status"],
)
def test_the_status_is_that_of_what_failed(shell, status, printed, order, tmp_path):
    process = order(["sleep", "600"], ["sh", "-c", f"echo '{{}}'; {shell}"], environment={"WHERE": "folder"})
    assert process.answer() == {"folder": None}, "No word speaks of one."
    assert (process.stdout.read(), process.stderr.read(), process.wait(30)) == (printed, "", status)
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("folder", ["/etc/lockstep-a", "/var/tmp/../lockstep-a", "/var/tmp/other"])
def test_only_a_launchs_folder_is_collected(folder, refusal):
    assert f"{folder} is no launch's folder" in refusal(lambda: supervisor.collect(folder, []))


STRAY = """
import os, signal, sys, time
if os.fork():
    sys.exit()
os.setsid()
if sys.argv[1] == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
os.close(1)
if sys.argv[1] == "stopped":
    os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(600)
"""


def stray(launch, kind=""):
    """The process id of one that left its session and its parent."""
    environment = os.environ | {LAUNCH: launch}
    command = [sys.executable, "-c", STRAY, kind]
    return int(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)


def test_a_sweep_ends_what_left_its_session_and_neither_itself_nor_anything_of_another_launch(
    agent, tmp_path, monkeypatch
):
    for name in ("lockstep-swept-1", "lockstep-other-1"):
        (tmp_path / "scratch" / name).mkdir()
    other, *swept = stray("other"), *(stray("swept", kind) for kind in ("", "stubborn", "stopped"))
    monkeypatch.setenv(LAUNCH, "swept")
    try:
        process = agent("sweep", launch="swept")
        assert (process.answer(), process.wait(30)) == ({"ended": 3}, 0)
        assert not any(is_running(pid) for pid in swept)
        assert is_running(other)
        assert left_in(tmp_path) == ["lockstep-other-1"]
    finally:
        os.kill(other, signal.SIGKILL)
