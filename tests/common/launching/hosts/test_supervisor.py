"""common/launching/hosts/supervisor.py: a launch on a host ends with its lifeline, a signal or a sweep, and leaves
nothing.

What its commands get and what comes back of their files is in test_ranks.py.
"""

import json
import os
import signal
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from common.launching.hosts import supervisor
from common.launching.hosts.supervisor import LAUNCH
from common.launching.places import place
from common.launching.places.ssh import SshHost
from tests.launching import is_running

HOST = SshHost("host1", 1)
SLEEPER = ["sh", "-c", "echo $$; exec sleep 600"]


@pytest.fixture
def start(launch_id, played_ssh):
    """A function that has a host run commands, and gives the process here and the folder there."""
    with ExitStack() as ends:

        def begin(*commands, **changes):
            request = {"launch": launch_id, "commands": commands, "environment": {}, "deadline_seconds": 60}
            process = HOST.start("run", request | changes)
            ends.callback(HOST.end, process)
            assert process.stdout.readline() == b"Welcome!\n"
            return process, json.loads(process.stdout.readline())["folder"]

        yield begin


@pytest.mark.parametrize("end", [lambda process: process.stdin.close(), lambda process: process.send_signal(15)])
def test_all_ends_with_the_lifeline_or_by_a_signal(end, start):
    commands = [SLEEPER, ["sh", "-c", "setsid sleep 600 & echo $!; wait"]]
    process, folder = start(*commands, environment={"WHERE": "{folder}"})
    assert Path(folder).is_dir()
    pids = [int(process.stdout.readline()) for _ in range(2)]
    end(process)
    assert process.wait(30) == 128 + signal.SIGTERM
    assert not any(is_running(pid) for pid in pids)
    assert not Path(folder).exists()


def test_all_ends_where_the_lifeline_misses_its_heartbeats_though_it_stays_open(start):
    process, _ = start(SLEEPER, heartbeat_seconds=0.3)
    pid = int(process.stdout.readline())
    for _ in range(3):
        process.stdin.write(b"\n")
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
            b"{}\nlockstep: failed: process 2 of 2 ended with signal 9, so all processes were ended.\n",
        ),
        # What ssh ends with where it has lost the host.
        ("exit 255", 254, b"{}\n"),
    ],
    ids=["a signal, which is told among what the commands print", "ssh's own status"],
)
def test_the_status_is_that_of_what_failed(shell, status, printed, start):
    process, folder = start(["sleep", "600"], ["sh", "-c", f"echo '{{}}'; {shell}"], environment={"WHERE": "folder"})
    assert folder is None, "No word speaks of one."
    assert (process.stdout.read(), process.stderr.read(), process.wait(30)) == (printed, b"", status)


@pytest.mark.parametrize("folder", ["/etc/lockstep-a", "/var/tmp/../lockstep-a", "/var/tmp/other"])
def test_only_a_launchs_folder_is_collected(folder, refusal):
    assert f"{folder} is no launch's folder" in refusal(lambda: supervisor.collect(folder, []))


@pytest.mark.usefixtures("played_ssh")
def test_a_sweep_ends_what_left_its_session_and_neither_itself_nor_anything_of_another_launch(
    launch_id, stray, monkeypatch
):
    kept, gone = supervisor.make_folder("other"), supervisor.make_folder(launch_id)
    monkeypatch.setenv(LAUNCH, launch_id)
    with subprocess.Popen(SLEEPER, env=os.environ | {LAUNCH: "other"}, stdout=subprocess.DEVNULL) as other:
        try:
            [answer] = place.ask("sweep", {HOST: {"launch": launch_id}})
            assert (answer.failure, answer.values) == (None, {"ended": 1})
            assert stray.wait(30) == -signal.SIGTERM
            assert other.poll() is None
            assert (kept.exists(), gone.exists()) == (True, False)
        finally:
            other.kill()
            kept.rmdir()
