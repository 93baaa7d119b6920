"""common/launching/processes.py: a group ends whole: the failed, the hanging, the stubborn and the strays."""

import itertools
import json
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from common.launching.processes import free_ports, signals_held
from common.paths import ROOT

# A process that ignores SIGTERM, in a session of its own, whose parent is gone: what a framework's launcher can leave.
STRAY = """
import os, signal, sys, time
reading, writing = os.pipe()
if os.fork():
    os.read(reading, 1)
    sys.exit(int(sys.argv[1]))
os.setsid()
if os.fork():
    os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[2], "w").write(str(os.getpid()))
os.write(writing, b".")
time.sleep(600)
"""

GROUP = """
import json, os, sys
from common.launching import processes
from common.launching.processes import run_group
processes._GRACE_SECONDS = 0.3
processes._RESTART_PAUSE_SECONDS = 0.2
commands, deadline_seconds, *more = json.loads(sys.argv[1])
outcome = run_group(commands, dict(os.environ), deadline_seconds, *more)
print(json.dumps([outcome.status, outcome.timed_out]))
"""


def run_group(commands, deadline_seconds, *more):
    """processes.run_group in a process of its own, since it adopts and ends every descendant."""
    arguments = [sys.executable, "-c", GROUP, json.dumps([commands, deadline_seconds, *more])]
    result = subprocess.run(arguments, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(result.stdout.splitlines()[-1])


def python(source, *arguments):
    return [sys.executable, "-c", source, *arguments]


def test_a_group_ends_with_zero_when_all_of_it_does():
    assert run_group([python("pass"), python("pass")], 30) == [0, False]


def test_one_that_fails_ends_those_that_would_go_on():
    assert run_group([python("import time; time.sleep(600)"), python("raise SystemExit(7)")], 30) == [7, False]


def test_a_hanging_group_ends_at_its_deadline():
    assert run_group([python("import time; time.sleep(600)")], 0.5) == [124, True]


def test_a_stopped_process_ends_at_the_deadline_too():
    assert run_group([python("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)")], 1) == [124, True]


def test_those_that_serve_end_with_those_that_are_waited_for():
    assert run_group([python("pass"), python("import time; time.sleep(600)")], 30, 1) == [0, False]


ONCE = """
import os, signal, sys
try:
    open(sys.argv[1], "x")
except FileExistsError:
    sys.exit(0)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_one_that_a_signal_ends_is_started_again_where_that_is_asked_for(tmp_path):
    command = python(ONCE, str(tmp_path / "first"))
    assert run_group([command], 30, None, [0]) == [0, False]
    (tmp_path / "first").unlink()
    assert run_group([command], 30) == [-signal.SIGKILL, False]


DYING = """
import os, signal, sys, time
with open(sys.argv[1], "a") as starts:
    print(time.monotonic(), file=starts)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_one_that_always_dies_at_its_start_fails_with_the_signal_after_a_few_starts(tmp_path):
    starts = tmp_path / "starts"
    waiting = python("import time; time.sleep(600)")
    assert run_group([python(DYING, str(starts)), waiting], 5, None, [0]) == [-signal.SIGKILL, False]
    times = [float(line) for line in starts.read_text().split()]
    assert len(times) == 4
    assert min(later - earlier for earlier, later in itertools.pairwise(times)) >= 0.2


def test_one_that_fails_by_itself_is_not_started_again():
    assert run_group([python("raise SystemExit(7)")], 30, None, [0]) == [7, False]


@pytest.mark.parametrize("status", [0, 3])
def test_a_stray_that_left_its_session_and_ignores_sigterm_is_ended(status, tmp_path):
    pid_file = tmp_path / "pid"
    assert run_group([python(STRAY, str(status), str(pid_file))], 30) == [status, False]
    assert not psutil.pid_exists(int(pid_file.read_text()))


UNKILLABLE = """
import os, sys
from common.errors import exit_with_one_line
from common.launching import processes
# As where a process waits for a device: no signal ends it.
processes._GRACE_SECONDS = processes.KILL_SECONDS = 0.2
signal_all, processes.signal_all = processes.signal_all, lambda *_: None
try:
    exit_with_one_line(lambda: processes.run_group([["sleep", "600"]], dict(os.environ), 0.1))
finally:
    signal_all(processes.psutil.Process().children(), 9)
"""


def test_a_process_that_not_even_sigkill_ends_is_a_failure_that_names_it():
    result = subprocess.run(python(UNKILLABLE), cwd=ROOT, capture_output=True, text=True, timeout=20)
    assert result.returncode == 1
    assert re.fullmatch(r"lockstep: failed: Process \d+ is still there after SIGKILL: .+\.\n", result.stderr)


def test_a_program_that_is_missing_is_one_line(tmp_path):
    source = f"""
from common.errors import exit_with_one_line
from common.launching.processes import run_group
exit_with_one_line(lambda: run_group([["{tmp_path}/bin/python"]], {{}}, 30))
"""
    result = subprocess.run(python(source), cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.returncode == 2
    assert result.stderr == f"lockstep: {tmp_path}/bin/python is missing: delete the folder .nox and run nox again.\n"


GOING = """
from common.launching.processes import exit_on_signals
import signal
exit_on_signals()
try:
    print("ready", flush=True)
    signal.pause()
finally:
    print("left in order", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_that_asks_to_leave_lets_what_was_begun_be_ended(number):
    with subprocess.Popen(python(GOING), cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.readline() == "left in order\n"
        assert process.wait(30) == 128 + number


STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: print("told", flush=True))
print(os.getpid(), flush=True)
time.sleep(600)
"""

WAITING = f"""
import signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.run([sys.executable, "-c", {STUBBORN!r}])
"""
"""A launcher that leaves the signal to what it has started."""

LEAVING = """
import os, sys
from common.launching import processes
from common.launching.processes import exit_on_signals, run_group
processes._GRACE_SECONDS = 1.0
exit_on_signals()
run_group([[sys.executable, "-c", sys.argv[1]]], dict(os.environ), float(sys.argv[2]))
"""


@pytest.mark.parametrize(
    ("program", "deadline_seconds", "first"),
    [(WAITING, 60, [signal.SIGTERM]), (STUBBORN, 1, [])],
    ids=["signal", "deadline"],
)
def test_a_signal_while_a_group_is_being_ended_does_not_cut_that_short(program, deadline_seconds, first):
    command = python(LEAVING, program, str(deadline_seconds))
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        child = psutil.Process(int(process.stdout.readline()))
        for number in first:
            process.send_signal(number)
        assert process.stdout.readline() == "told\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
        assert not child.is_running()


ELSEWHERE = """
import os, signal, threading, time
from common.launching.processes import exit_on_signals, run_group

def signal_this_thread():
    time.sleep(0.5)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

exit_on_signals()
threading.Thread(target=signal_this_thread).start()
run_group([["sleep", "600"]], dict(os.environ), 60)
"""


def test_a_signal_that_interrupts_no_wait_ends_a_group_too():
    assert subprocess.run([sys.executable, "-c", ELSEWHERE], timeout=30, cwd=ROOT).returncode == 128 + signal.SIGTERM


def test_a_group_ends_with_the_process_that_started_it_even_if_that_is_killed():
    waiting = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    with subprocess.Popen(python(LEAVING, waiting, "60"), cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        child = psutil.Process(int(process.stdout.readline()))
        process.kill()
        psutil.wait_procs([child], timeout=30)
        assert not child.is_running()


def test_signals_are_held_in_the_main_thread_alone_which_is_where_python_acts_on_them():
    before = signal.getsignal(signal.SIGTERM)
    with signals_held():
        held = signal.getsignal(signal.SIGTERM)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(signals_held().__enter__).result()
        assert signal.getsignal(signal.SIGTERM) is held
    assert held is not before
    assert signal.getsignal(signal.SIGTERM) is before


TASKS = """
import os, sys
from common.errors import exit_with_one_line
from common.launching.processes import run_tasks
if "ENDING" in os.environ:
    sys.exit(int(os.environ["ENDING"]))
tasks = {"worker 0": {"ENDING": "0"}, "worker 1": {"ENDING": sys.argv[1]}}
exit_with_one_line(lambda: run_tasks(tasks, dict(os.environ), 30))
"""


@pytest.mark.parametrize(
    ("ending", "status", "line"),
    [
        ("0", 0, ""),
        ("2", 2, ""),
        ("3", 1, "lockstep: failed: worker 1 ended with status 3, so all processes were ended.\n"),
    ],
)
def test_a_script_without_a_launcher_runs_once_for_each_task_and_ends_as_they_did(ending, status, line):
    result = subprocess.run(python(TASKS, ending), cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (status, line)


LOSING = """
import os, signal, sys
import psutil
from common.errors import exit_with_one_line
from common.launching import processes
if "SIGNAL" in os.environ:
    os.kill(os.getpid(), int(os.environ["SIGNAL"]))
if "WAITING" in os.environ:
    # As a worker that ends for want of another one.
    while not any(each.status() in ("stopped", "zombie") for each in psutil.Process().parent().children()):
        pass
    sys.exit(3)

def wait_late(running, deadline, wait_for_one=processes._wait_for_one):
    # On a busy machine: here comes the turn of the others first.
    os.waitid(os.P_PID, running[0].pid, os.WEXITED | os.WNOWAIT)
    return wait_for_one(running, deadline)

processes._wait_for_one = wait_late
tasks = {"worker 0": {"WAITING": ""}, "worker 1": {"SIGNAL": sys.argv[1]}}
exit_with_one_line(lambda: processes.run_tasks(tasks, dict(os.environ), 30))
"""


@pytest.mark.parametrize(
    ("number", "lost"),
    [
        (signal.SIGKILL, "worker 1 ended with signal 9"),
        (signal.SIGSTOP, "worker 1 was stopped by a signal, and then worker 0 ended with status 3"),
    ],
    ids=["killed", "stopped"],
)
def test_a_task_that_is_lost_is_named_before_the_one_that_ended_for_want_of_it(number, lost):
    command = python(LOSING, str(number.value))
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    line = f"lockstep: failed: {lost}, so all processes were ended.\n"
    assert (result.returncode, result.stderr) == (1, line)


def test_free_ports_are_all_different_and_nobody_listens_on_them():
    ports = free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        with socket.socket() as probe:
            probe.bind(("", port))


STUCK = """
import sys, time
from common.launching.processes import end_at_deadline
end_at_deadline(1)
while sys.argv[1] == "python": time.sleep(0.1)
# A C function that keeps the interpreter's lock: pause(2) through PyDLL.
import ctypes
ctypes.PyDLL(None).pause()
"""


@pytest.mark.parametrize(
    ("where", "status", "words"),
    [("python", 124, "lockstep: failed: the deadline of 1 s ended it."), ("c", 1, "Timeout (0:00:02)!")],
)
def test_a_process_that_hangs_in_python_or_in_c_ends_itself_at_its_deadline(where, status, words):
    result = subprocess.run([sys.executable, "-c", STUCK, where], cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert result.returncode == status
    assert words in result.stderr
