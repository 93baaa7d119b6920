"""common/launching/processes.py: a group ends whole: the failed, the hanging, the stubborn and the strays."""

import itertools
import json
import re
import signal
import socket
import subprocess
import sys

import psutil
import pytest

from common.launching.processes import exit_on_signals, free_ports
from common.paths import ROOT

GROUPS = """
import json, os, sys
import psutil
from common.errors import UserError
from common.launching import processes
processes._GRACE_SECONDS, processes._RESTART_PAUSE_SECONDS = 1.0, 0.2
endings = {}
for name, (commands, deadline_seconds, *more) in json.loads(sys.argv[1]).items():
    try:
        outcome = processes.run_group(commands, dict(os.environ), deadline_seconds, *more)
        endings[name] = [outcome.status, outcome.timed_out]
    except UserError as error:
        endings[name] = str(error)
    assert not psutil.Process().children(recursive=True), name
print(json.dumps(endings))
"""

SLEEP = ["sleep", "600"]
STOPPED = 'trap "touch left; exit" TERM; kill -STOP $$; exec sleep 600'
STRAY = """
setsid sh -c 'trap "" TERM; echo $$ > stray; exec sleep 600' &
until [ -s stray ]; do sleep 0.01; done
"""
"""A process that ignores SIGTERM, in a session of its own, whose parent is gone: what a framework's launcher can
leave."""


def python(source, *arguments):
    return [sys.executable, "-c", source, *arguments]


def run(command):
    """How a process of its own ends, since one that runs a group adopts and ends every descendant."""
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


def test_a_group_ends_as_the_first_that_fails_or_at_its_deadline_and_nobody_of_it_is_left(tmp_path):
    def shell(source):
        return ["sh", "-c", f"cd {tmp_path}; {source}"]

    well, failed, killed = [0, False], [7, False], [-signal.SIGKILL, False]
    missing = f"{tmp_path}/bin/python is missing: delete the folder .nox and run nox again."
    # More of each: how many are waited for, and which are started again where a signal ends them.
    groups = {
        "all end well": (well, [["true"], ["true"]], 30),
        "one fails": (failed, [SLEEP, shell("exit 7")], 30),
        "one is stopped": ([124, True], [shell(STOPPED)], 1),
        "the second serves the first": (well, [["true"], SLEEP], 30, 1),
        "one is killed": (killed, [shell("kill -9 $$")], 30),
        "one is killed once and started again": (well, [shell("mkdir once && kill -9 $$; exit 0")], 30, None, [0]),
        "it always dies": (killed, [shell("date +%s.%N >> starts; kill -9 $$"), SLEEP], 30, None, [0]),
        "one that may be started again fails by itself": (failed, [shell("exit 7")], 30, None, [0]),
        "one leaves a stray": (well, [shell(STRAY)], 30),
        "a program is missing": (missing, [[f"{tmp_path}/bin/python"]], 30),
    }
    result = run(python(GROUPS, json.dumps({name: arguments for name, (_, *arguments) in groups.items()})))
    assert result.returncode == 0, result.stderr
    endings = json.loads(result.stdout.splitlines()[-1])
    assert endings == {name: ending for name, (ending, *_) in groups.items()}
    assert not psutil.pid_exists(int((tmp_path / "stray").read_text()))
    assert (tmp_path / "left").exists(), "What is stopped may leave in order as well."
    starts = [float(line) for line in (tmp_path / "starts").read_text().split()]
    assert len(starts) == 4
    assert min(later - earlier for earlier, later in itertools.pairwise(starts)) >= 0.2


UNKILLABLE = """
import os
from common.errors import exit_with_one_line
from common.launching import processes
# As where a process waits for a device: no signal ends it. This one ends with its parent.
processes._GRACE_SECONDS = processes._KILL_SECONDS = 0.2
processes.signal_all = lambda *_: None
exit_with_one_line(lambda: processes.run_group([["sleep", "600"]], dict(os.environ), 0.1))
"""


def test_a_process_that_not_even_sigkill_ends_is_a_failure_that_names_it():
    result = run(python(UNKILLABLE))
    assert result.returncode == 1
    assert re.fullmatch(r"lockstep: failed: Process \d+ is still there after SIGKILL: .+\.\n", result.stderr)


def test_the_first_signal_that_asks_to_leave_ends_this_process_in_order_and_others_change_nothing():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    for number in before:
        exit_on_signals()
        with pytest.raises(SystemExit) as left:
            signal.raise_signal(number)
        assert left.value.code == 128 + number
        for another in before:
            signal.raise_signal(another)
    for number, handler in before.items():
        signal.signal(number, handler)


LEAVING = """
import os, sys
from common.launching import processes
from common.launching.processes import exit_on_signals, run_group
processes._GRACE_SECONDS = 1.0
exit_on_signals()
run_group([["sh", "-c", sys.argv[1]]], dict(os.environ), float(sys.argv[2]))
"""


def test_a_signal_while_a_group_is_being_ended_at_its_deadline_does_not_cut_that_short():
    stubborn = "trap 'echo told' TERM; echo $$; while :; do sleep 0.05; done"
    with subprocess.Popen(python(LEAVING, stubborn, "1"), cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        child = psutil.Process(int(process.stdout.readline()))
        assert process.stdout.readline() == "told\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
        assert not child.is_running()


def test_a_group_ends_with_the_process_that_started_it_even_if_that_is_killed():
    waiting = python(LEAVING, "echo $$; exec sleep 600", "60")
    with subprocess.Popen(waiting, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        child = psutil.Process(int(process.stdout.readline()))
        process.kill()
        psutil.wait_procs([child], timeout=30)
        assert not child.is_running()


ELSEWHERE = """
import os, signal, threading
from common.launching.processes import exit_on_signals, run_group
exit_on_signals()
threading.Timer(0.5, lambda: signal.pthread_kill(threading.get_ident(), signal.SIGTERM)).start()
run_group([["sleep", "600"]], dict(os.environ), 60)
"""


def test_a_signal_that_interrupts_no_wait_ends_a_group_too():
    assert run(python(ELSEWHERE)).returncode == 128 + signal.SIGTERM


TASKS = """
import os, sys, time
import psutil
from common.errors import exit_with_one_line
from common.launching import processes
end = os.environ.get("END")
if end == "for want of another":
    while not any(each.status() in ("stopped", "zombie") for each in psutil.Process().parent().children()):
        time.sleep(0.01)
    sys.exit(3)
if end in ("KILL", "STOP"):
    os.kill(os.getpid(), getattr(processes.signal, f"SIG{end}"))
if end:
    sys.exit(int(end))

def wait_late(running, deadline, wait_for_one=processes._wait_for_one):
    # On a busy machine: here comes the turn of the others first.
    if 0 in running:
        os.waitid(os.P_PID, running[0].pid, os.WEXITED | os.WNOWAIT)
    return wait_for_one(running, deadline)

processes._wait_for_one = wait_late
tasks = {f"worker {number}": {"END": end} for number, end in enumerate(sys.argv[1:])}
exit_with_one_line(lambda: processes.run_tasks(tasks, dict(os.environ), 30))
"""
FOR_WANT = "for want of another"


@pytest.mark.parametrize(
    ("ends", "status", "failure"),
    [
        (["0", "0"], 0, None),
        (["0", "2"], 2, None),
        (["0", "3"], 1, "worker 1 ended with status 3"),
        ([FOR_WANT, "KILL"], 1, "worker 1 ended with signal 9"),
        ([FOR_WANT, "STOP"], 1, "worker 1 was stopped by a signal, and then worker 0 ended with status 3"),
    ],
    ids=["all well", "refused", "failed", "killed", "stopped"],
)
def test_a_script_without_a_launcher_runs_once_for_each_task_and_names_the_one_that_was_lost_first(
    ends, status, failure
):
    result = run(python(TASKS, *ends))
    line = f"lockstep: failed: {failure}, so all processes were ended.\n" if failure else ""
    assert (result.returncode, result.stderr) == (status, line)


def test_free_ports_are_all_different_and_nobody_listens_on_them():
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        with socket.socket() as probe:
            probe.bind(("", port))


STUCK = """
import sys, time
from common.launching import processes
processes.REPORT_SECONDS = 0.5
processes.end_at_deadline(0.2)
while sys.argv[1] == "python": time.sleep(0.1)
# A C function that keeps the interpreter's lock: pause(2) through PyDLL.
import ctypes
ctypes.PyDLL(None).pause()
"""


@pytest.mark.parametrize(
    ("where", "status", "words"),
    [("python", 124, "lockstep: failed: the deadline of 0.2 s ended it."), ("c", 1, "Timeout (0:00:00.700000)!")],
)
def test_a_process_that_hangs_in_python_or_in_c_ends_itself_at_its_deadline(where, status, words):
    result = run(python(STUCK, where))
    assert result.returncode == status
    assert words in result.stderr
