"""common/launching/injector.py: signals come from outside, to the right process, when they are due; with the accounts
that common/launching/attempts.py keeps."""

import json
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from common.contract.fault import parse
from common.declarations.strategy import rank_by
from common.errors import UserError
from common.launching.injector import Injector
from common.launching.launch import prepare
from common.launching.virtual_hosts.virtual_cluster import virtual_hosts
from common.paths import ROOT
from tests.launching import wait_for

WORKER = """
import sys, time
from common.contract.task import Task
from common.measurement.boundaries import Boundaries

boundaries = Boundaries(Task(inject=sys.argv[1] or None), rank=int(sys.argv[2]), only_run=False)
boundaries.reach(0)
for step in range(10, 60, 10):
    until = time.process_time() + 0.02
    while time.process_time() < until:
        pass
    boundaries.reach(step)
"""


SLOW_WORKER = WORKER.replace("+ 0.02", "+ 0.02 + 0.5 * int(sys.argv[2])")
"""One whose second rank is far from its end when the first one comes to its step."""

ON_THE_HEAD = """
import json, os, shlex, socket, subprocess, sys, tempfile, time
from pathlib import Path
from common.contract.fault import parse
from common.declarations.strategy import rank_by
from common.errors import UserError
from common.launching.injector import Injector
from common.launching.launch import prepare
from common.launching.virtual_hosts.virtual_cluster import virtual_hosts
from common.launching.virtual_hosts.description import described

def answers(name):
    try:
        socket.create_connection((name, 22), timeout=1).close()
        return True
    except OSError:
        return False

fault, worker = sys.argv[1:]
hosts, started = described(), []
with tempfile.TemporaryDirectory(dir="/tmp") as folder:
    injector = Injector(parse(fault), rank_by("TEST_RANK"), hosts, Path(folder))
    with injector.listening():
        for rank, name in enumerate(hosts.names):
            variables = injector.variables | {"TEST_RANK": str(rank)}
            words = ["env", *(f"{key}={value}" for key, value in variables.items())]
            words = shlex.join([*words, sys.executable, "-c", worker, fault, str(rank)])
            started.append(subprocess.Popen(["ssh", "-T", name, f"cd {os.getcwd()}; {words}"]))
        while injector.injected_seconds is None:
            time.sleep(0.01)
        cut, until = False, time.monotonic() + 10
        while not cut and time.monotonic() < until:
            cut = not answers("host2")
        started[0].wait()
        if parse(fault).kind == "cable":
            started[1].wait()
    print(json.dumps({"cut": cut, "back": any(answers("host2") for _ in range(10)), "moments": [
        [moment.rank, moment.step] for moment in injector.moments]}))
    started[1].wait()
"""


@pytest.fixture
def suffer():
    """A function that starts two workers, which suffer a fault; the injector and their exit statuses when they end."""
    started = []

    def start(fault, seconds=30.0, ends=(0, 1)):
        injector = Injector(parse(fault) if fault else None, rank_by("TEST_RANK"))
        with injector.listening():
            for rank in (0, 1):
                environment = os.environ | injector.variables | {"TEST_RANK": str(rank)}
                command = [sys.executable, "-c", WORKER, fault, str(rank)]
                started.append(subprocess.Popen(command, cwd=ROOT, env=environment))
            statuses = [started[rank].wait(seconds) if rank in ends else None for rank in (0, 1)]
            time.sleep(0.1)  # For what is still on its way, which comes by threads.
        return injector, statuses, started

    yield start
    for each in started:
        each.kill()
        each.wait()


def steps_of(injector, rank):
    return [moment.step for moment in injector.moments if moment.rank == rank]


def test_a_rank_is_killed_at_its_step_and_no_other_one(suffer):
    injector, statuses, started = suffer("kill:rank=1,step=30")
    assert statuses == [0, -signal.SIGKILL]
    assert injector.injected_process == started[1].pid
    assert (steps_of(injector, 0), steps_of(injector, 1)) == ([0, 10, 20, 30, 40, 50], [0, 10, 20, 30])
    last = next(moment for moment in injector.moments if moment.rank == 1 and moment.step == 30)
    assert injector.injected_seconds >= last.seconds


def test_a_rank_that_is_stopped_stays_stopped(suffer):
    injector, statuses, started = suffer("stop:rank=0,step=30", ends=(1,))
    assert statuses == [None, 0]
    assert psutil.Process(started[0].pid).status() == psutil.STATUS_STOPPED
    assert steps_of(injector, 0) == [0, 10, 20, 30]


def test_a_slow_rank_takes_longer_and_ends(suffer):
    injector, statuses, _ = suffer("slow:rank=1,factor=4")
    assert statuses == [0, 0]
    seconds = [moment.seconds for moment in injector.moments if moment.rank == 1]
    # 0.1 seconds of its processor alone.
    assert max(seconds) - min(seconds) > 0.2
    # A busy machine lets it run later than it may, and stops it later.
    assert 1.2 < injector.reached_factor < 10


def test_a_late_rank_comes_later_and_a_missing_one_never(suffer):
    injector, statuses, _ = suffer("late:rank=1,seconds=1.5")
    assert statuses == [0, 0]
    first = next(each.seconds for each in injector.moments if each.rank == 1)
    assert first - injector.injected_seconds > 1.4
    injector, statuses, started = suffer("missing:rank=1", ends=(0,))
    assert (statuses, steps_of(injector, 1)) == ([0, None], [])
    wait_for(lambda: psutil.Process(started[-1].pid).status() == psutil.STATUS_STOPPED, seconds=10)


def test_without_a_fault_all_is_only_noted(suffer):
    injector, statuses, _ = suffer("")
    assert (statuses, injector.injected_seconds) == ([0, 0], None)
    assert steps_of(injector, 1) == [0, 10, 20, 30, 40, 50]


def test_a_fault_without_anybody_to_inject_it_is_refused_in_one_line():
    command = [sys.executable, "-c", WORKER, "kill:rank=1,step=30", "0"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert "nobody is there to do it; start the strategy by `nox -s`" in result.stderr


def test_on_one_machine_no_host_can_be_lost():
    with pytest.raises(UserError, match=r"this launch is on one machine; `nox -s faults -- --virtual-hosts 2` makes"):
        prepare(["torch_ddp", "--inject", "host:name=host2,step=150"])


def on_hosts(fault):
    try:
        with virtual_hosts(2) as made:
            command = made.enter(sys.executable, "-c", ON_THE_HEAD, fault, SLOW_WORKER)
            result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    except UserError as error:
        pytest.skip(f"No test hosts: {str(error).removeprefix('No virtual hosts: ')}")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.mark.parametrize("fault", ["host:name=host2,step=30", "cable:name=host2,step=30,seconds=4"])
def test_a_host_is_cut_off_and_where_it_is_lost_nothing_of_the_launch_goes_on_there(fault):
    seen = on_hosts(fault)
    assert (seen["cut"], seen["back"]) == (True, True)
    assert max(step for rank, step in seen["moments"] if rank == 0) == 50
    # A cable alone stops nobody who sends nothing by it.
    reached = max((step for rank, step in seen["moments"] if rank == 1), default=0)
    assert (reached == 50) == fault.startswith("cable")
