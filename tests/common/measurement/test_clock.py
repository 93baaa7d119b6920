"""common/measurement/clock.py: where windows start and stop, and what is counted within them."""

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from common.contract.task import Task
from common.measurement import machine, startup
from common.measurement.clock import Clock, windows_of
from common.measurement.disturbance import Meter
from common.measurement.machine import Placement
from common.measurement.run import Run
from common.measurement.startup import Moment
from common.measurement.world import World
from common.records.training import Startup, Window

JOINED = Moment(3.0, 1.0)
TASK = Task(steps=30, warmup_steps=6, window_steps=10)


def edges_of(task, first_step=0):
    """The first step and the end of every window."""
    return [*itertools.pairwise(windows_of(task, first_step, None).edges)]


def clock_of(task, rank=0, first_step=0, synchronize=lambda: None):
    return Clock(windows_of(task, first_step, None), rank, synchronize, JOINED)


@pytest.fixture
def clocked(time):
    """A function that clocks every window of a task, whose steps take a second each, and returns the clock."""

    def train(task, rank=0, first_step=0, during_step=lambda clock, step: None, synchronize=lambda: None):
        clock = clock_of(task, rank, first_step, synchronize)
        for start, end in edges_of(task, first_step):
            clock.start(start)
            for step in range(start, end):
                time.now += 1.0
                during_step(clock, step)
            clock.stop(end)
        return clock

    return train


def test_windows_end_after_the_first_step_after_the_warm_up_when_full_and_with_the_run():
    assert edges_of(TASK) == [(0, 1), (1, 6), (6, 16), (16, 26), (26, 30)]


def test_a_run_that_goes_on_warms_up_again():
    assert edges_of(TASK, first_step=15) == [(15, 16), (16, 21), (21, 30)]


def test_windows_end_at_checkpoints(tmp_path):
    task = Task(steps=30, warmup_steps=6, window_steps=10, checkpoint=tmp_path / "state", checkpoint_steps=4)
    assert edges_of(task) == [
        *((0, 1), (1, 4), (4, 6), (6, 8), (8, 12), (12, 16), (16, 20), (20, 24), (24, 26), (26, 28), (28, 30)),
    ]


def window_that_has(step, task, first_step):
    """What tells the windows of steps after the warm-up apart: between them lie full windows and checkpoints."""
    since = step - first_step - task.warmup_steps
    return since // task.window_steps, step // task.checkpoint_steps if task.checkpoint_steps else 0


@given(st.integers(1, 20), st.integers(1, 60), st.integers(1, 25), st.integers(0, 15), st.integers(0, 40))
def test_windows_hold_every_step_once_and_end_only_where_they_must(
    tmp_path_factory, warmup, measured, window, every, first_step
):
    task = Task(
        steps=first_step + warmup + measured,
        warmup_steps=warmup,
        window_steps=window,
        checkpoint_steps=every,
        checkpoint=tmp_path_factory.getbasetemp() / "never_written",
    )
    found = edges_of(task, first_step)
    assert [step for start, end in found for step in range(start, end)] == list(range(first_step, task.steps))
    warm = first_step + warmup
    assert all(start >= warm or end <= warm for start, end in found)
    kept = [range(start, end) for start, end in found if start >= warm]
    places = [{window_that_has(step, task, first_step) for step in steps} for steps in kept]
    assert all(len(each) == 1 for each in places)
    assert len(set.union(*places)) == len(kept)


def test_every_window_after_the_warm_up_is_kept_with_rank_steps_and_seconds(clocked):
    clock = clocked(TASK, rank=3)
    assert clock.windows == [
        Window(rank=3, step=6, steps=10, started_seconds=6.0, seconds=10.0),
        Window(rank=3, step=16, steps=10, started_seconds=16.0, seconds=10.0),
        Window(rank=3, step=26, steps=4, started_seconds=26.0, seconds=4.0),
    ]
    assert clock.training_seconds == 30.0


def test_the_time_to_the_first_step_counts_from_the_processs_start_in_parts(clocked, time, monkeypatch):
    monkeypatch.setattr(startup, "imports", lambda: Moment(2.0, 0.75))
    monkeypatch.setattr(startup, "moment", lambda: Moment(time.now, 5.0))
    time.now = 5.0
    clock = clocked(TASK)
    assert clock.startup_seconds == Startup(imports=2.0, world=1.0, first_step=3.0)
    assert clock.startup_processor_seconds == Startup(imports=0.75, world=0.25, first_step=4.0)


def test_what_is_left_out_is_in_no_part_of_the_time_to_the_first_step(time, monkeypatch):
    monkeypatch.setattr(startup, "imports", lambda: Moment(2.0, 0.75))
    monkeypatch.setattr(startup, "moment", lambda: Moment(time.now, 0.5 * time.now))
    time.now = 5.0
    clock = clock_of(TASK)
    for _ in range(2):
        time.now += 2.0
        clock.leave_out(Moment(time.now - 2.0, 0.5 * (time.now - 2.0)))
    clock.start(0)
    time.now += 1.0
    clock.stop(1)
    assert clock.startup_seconds == Startup(imports=2.0, world=1.0, first_step=10.0 - 4.0 - 3.0)
    assert clock.startup_processor_seconds.first_step == 0.5 * (10.0 - 4.0) - 1.0


def test_a_window_says_when_it_started_counted_from_the_processs_start(time, monkeypatch):
    # The clock of the windows began long before the process did.
    time.now = 1000.0
    monkeypatch.setattr(time, "since_start", lambda: 4.0)
    clock = clock_of(TASK)
    time.now += 2.5
    clock.start(6)
    time.now += 1.0
    clock.stop(16)
    assert [window.started_seconds for window in clock.windows] == [6.5]


def test_a_run_that_goes_on_has_a_first_step_of_its_own(clocked):
    clock = clocked(TASK, first_step=15)
    assert clock.startup_seconds.first_step == 1.0 - 3.0
    assert [(window.step, window.steps) for window in clock.windows] == [(21, 9)]


def test_time_between_windows_is_in_none(time):
    clock = clock_of(TASK)
    clock.start(0)
    time.now += 1.0
    assert clock.stop(1) == 1.0
    time.now += 1000.0
    clock.start(1)
    time.now += 5.0
    assert clock.stop(6) == 5.0
    assert clock.training_seconds == 6.0


def test_the_wait_for_the_device_belongs_to_the_window(clocked, time):
    def wait():
        time.now += 0.5

    assert [window.seconds for window in clocked(TASK, synchronize=wait).windows] == [10.5, 10.5, 4.5]


def test_waiting_for_rows_is_told_per_window_once_it_is_measured(clocked):
    def wait_for_rows(clock, step):
        clock.input_seconds = (clock.input_seconds or 0.0) + 0.25

    assert all(window.input_seconds is None for window in clocked(TASK).windows)
    windows = clocked(TASK, during_step=wait_for_rows).windows
    assert [window.input_seconds for window in windows] == [2.5, 2.5, 1.0]


def test_bytes_are_counted_in_the_kept_windows_and_only_on_a_network_of_the_launchs_own(clocked, monkeypatch):
    sent = 0

    def send(clock, step):
        nonlocal sent
        sent += 10**6 if step < 6 else 100

    monkeypatch.setattr(machine, "bytes_sent", lambda interface: sent)
    assert clocked(TASK, during_step=send).sent_bytes == 0
    monkeypatch.setenv(machine.PRIVATE_NETWORK, "1")
    assert clocked(TASK, during_step=send).sent_bytes == 24 * 100


def test_nothing_is_read_between_the_start_and_the_stop_of_a_windows_clock(time, monkeypatch):
    monkeypatch.setenv(machine.PRIVATE_NETWORK, "1")
    order, clock = [], clock_of(TASK, synchronize=lambda: order.append("device"))
    time.on_reading = lambda: order.append("clock")
    monkeypatch.setattr(machine, "bytes_sent", lambda interface: order.append("bytes") or 0)
    monkeypatch.setattr(Meter, "start", lambda meter: order.append("before"))
    monkeypatch.setattr(Meter, "stop", lambda meter, window: order.append("after") or window)
    clock.start(6)
    order.append("steps")
    clock.stop(16)
    # The bytes come first and last but for the meter: while it reads, another rank may send for its next window.
    assert order == ["bytes", "before", "clock", "steps", "device", "clock", "bytes", "after"]


def test_what_happened_around_a_window_is_told_of_it_once_the_warm_up_is_over(clocked, time, monkeypatch):
    spins = []
    monkeypatch.setattr(Meter, "start", lambda meter: spins.append(time.now))
    monkeypatch.setattr(Meter, "stop", lambda _, window: structs.replace(window, spin_seconds=spins[-1]))
    windows = clocked(TASK).windows
    assert [(window.step, window.seconds, window.spin_seconds) for window in windows] == [
        *((6, 10.0, 6.0), (16, 10.0, 16.0), (26, 4.0, 26.0)),
    ]
    assert spins == [6.0, 16.0, 26.0]


def test_the_cores_that_are_read_are_those_that_the_run_is_kept_on(declare, tmp_path, monkeypatch):
    kept_on = []
    monkeypatch.setattr(Meter, "__init__", lambda meter, cores: kept_on.append(cores))
    strategy = declare()
    task = dataclasses.replace(TASK, record=tmp_path / "record.json")
    Run(strategy, task, strategy.options(), World(placement=Placement([2, 3], oversubscribed=False)))
    assert kept_on == [[2, 3]]
