"""common/launching/injector.py: signals come from outside, to the right process, when they are due; with the accounts
that common/launching/attempts.py keeps."""

import os
import signal
import subprocess
import sys
import time
from unittest.mock import Mock, call

import psutil
import pytest

from common.contract.fault import parse
from common.contract.task import Task
from common.declarations.strategy import rank_by
from common.launching.injector import Injector
from common.measurement.boundaries import INJECTOR, Boundaries
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
    time.sleep(float(sys.argv[3]))
    boundaries.reach(step)
"""


@pytest.fixture
def suffer(tmp_path):
    """A function that starts two workers, which suffer a fault; the injector and their exit statuses when they end.

    The second one waits for so many seconds before each of its steps.
    """
    started = []

    def start(fault, ends=(0, 1), wait_seconds=0.0, hosts=None):
        injector = Injector(parse(fault) if fault else None, rank_by("TEST_RANK"), hosts, tmp_path if hosts else None)
        with injector.listening():
            for rank in (0, 1):
                environment = os.environ | injector.variables | {"TEST_RANK": str(rank)}
                command = [sys.executable, "-c", WORKER, fault, str(rank), str(rank * wait_seconds)]
                started.append(subprocess.Popen(command, cwd=ROOT, env=environment))
            statuses = [started[rank].wait(30) if rank in ends else None for rank in (0, 1)]
            time.sleep(0.1)  # For what is still on its way, which comes by threads.
        return injector, statuses, started

    yield start
    for each in started:
        each.kill()
        each.wait()


ALL, SOME = [0, 10, 20, 30, 40, 50], [0, 10, 20, 30]


@pytest.mark.parametrize(
    ("fault", "statuses", "steps"),
    [
        ("", [0, 0], [ALL, ALL]),
        ("kill:rank=1,step=30", [0, -signal.SIGKILL], [ALL, SOME]),
        ("stop:rank=0,step=30", [None, 0], [SOME, ALL]),
        ("missing:rank=1", [0, None], [ALL, []]),
    ],
)
def test_a_fault_comes_to_its_rank_at_its_step_and_to_no_other_one(fault, statuses, steps, suffer):
    lasting = [rank for rank, status in enumerate(statuses) if status is None]
    injector, ended, started = suffer(fault, ends={0, 1} - {*lasting})
    assert ended == statuses
    assert [[each.step for each in injector.moments if each.rank == rank] for rank in (0, 1)] == steps
    assert (injector.injected_seconds is None) == (not fault)
    for rank in lasting:
        wait_for(lambda rank=rank: psutil.Process(started[rank].pid).status() == psutil.STATUS_STOPPED, seconds=10)
    if fault:
        rank = parse(fault).rank
        assert injector.injected_process == started[rank].pid
        assert all(injector.injected_seconds >= each.seconds for each in injector.moments if each.rank == rank)


def test_a_slow_rank_takes_longer_and_ends(suffer):
    injector, statuses, _ = suffer("slow:rank=1,factor=4")
    assert statuses == [0, 0]
    seconds = [moment.seconds for moment in injector.moments if moment.rank == 1]
    # 0.1 seconds of its processor alone.
    assert max(seconds) - min(seconds) > 0.2
    # A busy machine lets it run later than it may, and stops it later.
    assert 1.2 < injector.reached_factor < 10


def test_a_late_rank_comes_later(suffer):
    injector, statuses, _ = suffer("late:rank=1,seconds=1.5")
    assert statuses == [0, 0]
    first = next(each.seconds for each in injector.moments if each.rank == 1)
    assert first - injector.injected_seconds > 1.4


def test_a_fault_that_nobody_is_there_to_inject_is_refused_in_one_line(refusal, monkeypatch):
    monkeypatch.delenv(INJECTOR, raising=False)
    task = Task(inject="kill:rank=1,step=30")
    said = refusal(lambda: Boundaries(task, rank=0, only_run=False))
    assert "nobody is there to do it; start the strategy by `nox -s`" in said


PULLED, PLUGGED = call("host2", False), call("host2", True)


@pytest.mark.parametrize(
    ("fault", "played", "statuses", "plugged"),
    [
        ("host:name=host2,step=30", "host2", [-signal.SIGKILL] * 2, [PULLED, PLUGGED]),
        ("host:name=host2,step=30", "host1", [0, 0], [PULLED, PLUGGED]),
        # When its seconds are over, and when the launch is.
        ("cable:name=host2,step=30,seconds=0.1", "host2", [0, 0], [PULLED, PLUGGED, PLUGGED]),
    ],
    ids=["the host is lost", "another host is lost", "the cable is pulled"],
)
def test_a_host_is_cut_off_and_where_it_is_lost_nothing_of_the_launch_goes_on_there(
    fault, played, statuses, plugged, suffer
):
    own, names = os.stat("/proc/self/ns/net").st_ino, ("host1", "host2")
    # Two hosts, of which this machine plays one.
    hosts = Mock(names=names, networks=[own if name == played else 0 for name in names])
    # The second rank is far from its end when the first one comes to its step.
    _, ended, _ = suffer(fault, wait_seconds=0.5, hosts=hosts)
    assert (ended, hosts.plug.call_args_list) == (statuses, plugged)
