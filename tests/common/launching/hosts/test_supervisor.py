"""common/launching/hosts/supervisor.py: a launch on a host ends with its lifeline, its deadline or a sweep, and leaves
nothing."""

import base64
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from common.launching.hosts.supervisor import LAUNCH
from tests.launching import is_running

SLEEPER = ["sh", "-c", "echo $$; exec sleep 600"]
IN_A_FOLDER = {"environment": {"WHERE": "{folder}"}}


@pytest.fixture
def order(agent):
    """A function that starts commands by the agent's `run`."""

    def start(*commands, **changes):
        values = {"launch": "test", "commands": list(commands), "environment": {}, "deadline_seconds": 60}
        return agent("run", **values | changes)

    return start


def finish(process):
    """Both outputs of an agent that ends by itself: its input, the lifeline, stays open."""
    outputs = process.stdout.read(), process.stderr.read()
    process.wait(30)
    return outputs


def left_in(tmp_path):
    return sorted(path.name for path in (tmp_path / "scratch").iterdir())


def test_commands_run_in_their_environment_and_leave_files_of_which_those_asked_for_are_collected(order, agent):
    write = 'cd "$0"; echo "$WHERE" && echo $LOCKSTEP_LAUNCH && echo problem >&2 && printf "\\001\\377" > some.bin'
    process = order(["sh", "-c", f"{write} && touch core", "{folder}"], environment={"WHERE": "in {folder}"})
    folder = process.answer()["folder"]
    output, errors = finish(process)
    assert process.returncode == 0
    assert output == f"in {folder}\ntest\nproblem\n"
    assert errors == ""
    answer = agent("collect", folder=folder, names=["some.bin", "missing"]).answer()
    assert answer == {"some.bin": base64.b64encode(b"\1\xff").decode()}
    assert not os.path.exists(folder)


def test_where_no_word_speaks_of_a_folder_there_is_none(order, tmp_path):
    process = order(["echo", "{}"], environment={"WHERE": "folder"})
    assert process.answer() == {"folder": None}
    assert finish(process) == ("{}\n", "")
    assert left_in(tmp_path) == []


def test_commands_do_not_read_the_lifeline(order):
    process = order(["cat"])
    process.answer()
    assert process.wait(30) == 0


@pytest.mark.parametrize("end", [lambda process: process.stdin.close(), lambda process: process.send_signal(15)])
def test_all_ends_with_the_lifeline_or_by_a_signal(end, order, tmp_path):
    process = order(SLEEPER, ["sh", "-c", "setsid sleep 600 & echo $!; wait"], **IN_A_FOLDER)
    process.answer()
    pids = [int(process.stdout.readline()) for _ in range(2)]
    end(process)
    assert process.wait(30) == 128 + signal.SIGTERM
    assert not any(is_running(pid) for pid in pids)
    assert left_in(tmp_path) == []


def test_all_ends_where_the_lifeline_misses_its_heartbeats_though_it_stays_open(order):
    process = order(SLEEPER, heartbeat_seconds=0.2)
    process.answer()
    pid = int(process.stdout.readline())
    for _ in range(4):
        time.sleep(0.3)
        process.stdin.write("\n")
        process.stdin.flush()
    assert is_running(pid), "three may be missing"
    assert process.wait(30) == 128 + signal.SIGTERM
    assert not is_running(pid)


def test_a_command_that_a_signal_ended_is_told_among_what_the_commands_print(order):
    process = order(SLEEPER, ["sh", "-c", "kill -9 $$"])
    process.answer()
    told = "lockstep: failed: process 2 of 2 ended with signal 9, so all processes were ended."
    output, errors = finish(process)
    assert (process.returncode, output.splitlines()[-1], errors) == (128 + signal.SIGKILL, told, "")


def test_the_deadline_ends_all(order):
    process = order(SLEEPER, deadline_seconds=0.3, **IN_A_FOLDER)
    process.answer()
    pid = int(process.stdout.readline())
    assert process.wait(30) == 124
    assert not is_running(pid)


@pytest.mark.parametrize(
    ("shell", "status"),
    [("exit 7", 7), ("kill -9 $$", 137), ("exit 255", 254)],
    ids=["a status", "a signal", "ssh's own status"],
)
def test_the_status_is_that_of_what_failed(shell, status, order):
    process = order(["sh", "-c", shell], SLEEPER)
    assert process.wait(30) == status


def test_what_is_left_by_commands_of_which_one_failed_is_collected(order, agent, tmp_path):
    process = order(["sh", "-c", "echo half > $0/record; exit 7", "{folder}"], SLEEPER)
    folder = process.answer()["folder"]
    assert process.wait(30) == 7
    answer = agent("collect", folder=folder, names=["record"]).answer()
    assert answer == {"record": base64.b64encode(b"half\n").decode()}
    assert left_in(tmp_path) == []


def test_a_disk_without_room_is_one_sentence_that_names_the_host(order, tmp_path):
    (tmp_path / "file").touch()
    process = order(SLEEPER, **IN_A_FOLDER, scratch=tmp_path / "file")
    output, errors = finish(process)
    assert (process.returncode, output) == (2, "")
    assert errors.startswith(f"lockstep: {socket.gethostname()} can't keep files in {tmp_path}/file")


STRAY = """
import os, signal, sys, time
if os.fork():
    sys.exit()
os.setsid()
if int(sys.argv[1]):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
os.close(1)
time.sleep(600)
"""


def stray(launch, stubborn=False):
    """The process id of one that left its session and its parent, and may ignore SIGTERM."""
    environment = os.environ | {LAUNCH: launch}
    command = [sys.executable, "-c", STRAY, str(int(stubborn))]
    return int(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout)


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_sweep_ends_what_left_its_session_and_nothing_of_another_launch(stubborn, agent, tmp_path):
    for name in ("lockstep-swept-1", "lockstep-other-1"):
        (tmp_path / "scratch" / name).mkdir()
    swept, other = stray("swept", stubborn), stray("other")
    try:
        assert agent("sweep", launch="swept").answer() == {"ended": 1}
        assert not is_running(swept)
        assert is_running(other)
        assert left_in(tmp_path) == ["lockstep-other-1"]
    finally:
        os.kill(other, signal.SIGKILL)


def test_a_stopped_process_is_swept_too(agent):
    pid = stray("stopped")
    os.kill(pid, signal.SIGSTOP)
    assert agent("sweep", launch="stopped").answer() == {"ended": 1}
    assert not is_running(pid)


def test_a_sweep_that_belongs_to_the_launch_spares_itself(agent, monkeypatch):
    monkeypatch.setenv(LAUNCH, "own")
    process = agent("sweep", launch="own")
    assert process.answer() == {"ended": 0}
    assert process.wait(30) == 0
