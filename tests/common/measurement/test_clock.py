"""common/measurement/clock.py: where windows start and stop, and what is counted within them."""

from itertools import pairwise

import pytest
from msgspec import structs

from common.contract.task import Task
from common.measurement import startup
from common.measurement.clock import Clock
from common.measurement.disturbance import Meter
from common.measurement.machine import Pinning
from common.measurement.startup import Moment
from common.measurement.windows import windows_of
from common.records.training import Startup, Window

JOINED = Moment(3.0, 1.0)
TASK = Task(steps=30, warmup_steps=6, window_steps=10)


def clock_of(rank=0, synchronize=lambda: None):
    return Clock(windows_of(TASK, 0, None), rank, synchronize, JOINED)


@pytest.fixture
def clocked(time):
    """A function that clocks every window of a task, whose steps take a second each, and returns the clock."""

    def train(during_step=lambda clock, step: None, **changes):
        clock = clock_of(**changes)
        for start, end in pairwise(windows_of(TASK, 0, None).edges):
            clock.start(start)
            for step in range(start, end):
                time.now += 1.0
                during_step(clock, step)
            clock.stop(end)
        return clock

    return train


def test_every_window_after_the_warm_up_is_kept_with_what_happened_around_it_and_the_waits_for_device_and_rows(
    clocked, time, monkeypatch
):
    def wait_for_rows(clock, step):
        clock.input_seconds = (clock.input_seconds or 0.0) + 0.25

    def wait():
        time.now += 0.5

    spins = []
    monkeypatch.setattr(Meter, "start", lambda meter: spins.append(time.now))
    monkeypatch.setattr(Meter, "stop", lambda _, window: structs.replace(window, spin_seconds=spins[-1]))
    clock = clocked(rank=3)
    assert clock.windows == [
        Window(rank=3, step=6, steps=10, started_seconds=6.0, seconds=10.0, spin_seconds=6.0),
        Window(rank=3, step=16, steps=10, started_seconds=16.0, seconds=10.0, spin_seconds=16.0),
        Window(rank=3, step=26, steps=4, started_seconds=26.0, seconds=4.0, spin_seconds=26.0),
    ]
    assert spins == [6.0, 16.0, 26.0]
    assert clock.training_seconds == 30.0
    assert [window.input_seconds for window in clocked(wait_for_rows).windows] == [2.5, 2.5, 1.0]
    assert [window.seconds for window in clocked(synchronize=wait).windows] == [10.5, 10.5, 4.5]


def test_the_time_to_the_first_step_counts_from_the_processs_start_in_parts_without_what_is_left_out(time, monkeypatch):
    monkeypatch.setattr(startup, "imports", lambda: Moment(2.0, 0.75))
    monkeypatch.setattr(startup, "moment", lambda: Moment(time.now, 0.5 * time.now))
    time.now = 5.0
    clock = clock_of()
    for _ in range(2):
        time.now += 2.0
        clock.leave_out(Moment(time.now - 2.0, 0.5 * (time.now - 2.0)))
    clock.start(0)
    time.now += 1.0
    clock.stop(1)
    clock.start(1)
    time.now += 5.0
    clock.stop(6)
    assert clock.startup_seconds == Startup(imports=2.0, world=1.0, first_step=10.0 - 4.0 - 3.0)
    assert clock.startup_processor_seconds == Startup(imports=0.75, world=0.25, first_step=0.5 * (10.0 - 4.0) - 1.0)


def test_the_cores_that_are_read_are_those_that_the_run_is_kept_on(one_worker, monkeypatch):
    kept_on = []
    monkeypatch.setattr(Meter, "__init__", lambda meter, cores: kept_on.append(cores))
    one_worker(TASK, pinning=Pinning([2, 3], oversubscribed=False))
    assert kept_on == [[2, 3]]
