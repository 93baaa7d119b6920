"""What the tests of measurement share: a run of one worker, and a time that only moves when a test moves it."""

import dataclasses

import pytest

from common.measurement import clock as clock_module
from common.measurement import run as run_module
from common.measurement import startup
from common.measurement.disturbance import Meter
from common.measurement.machine import Pinning
from common.measurement.run import Run
from common.measurement.world import World


@pytest.fixture(autouse=True)
def without_evidence(request, monkeypatch):
    """What is no test of evidence has none, whose steps would be windows of their own."""
    if "evidence" not in request.node.name:
        monkeypatch.setattr(run_module, "MOST_BYTES", 0)


class Time:
    """Takes the place of the module `time`: it stands still between its readings unless moved."""

    def __init__(self) -> None:
        self.now = 0.0
        self.on_reading = lambda: None

    def perf_counter(self) -> float:
        self.on_reading()
        return self.now


@pytest.fixture
def time(monkeypatch):
    time = Time()
    for module in (clock_module, run_module):
        monkeypatch.setattr(module, "time", time)
    monkeypatch.setattr(startup, "seconds_since_start", lambda: time.now)
    # What happens around windows takes real time.
    monkeypatch.setattr(Meter, "start", lambda meter: None)
    monkeypatch.setattr(Meter, "stop", lambda meter, window: window)
    return time


@pytest.fixture
def one_worker(tmp_path, declare):
    """A function that makes a Run of one process, which keeps its initial state; `world` has fields of the World."""

    def make(task, strategy=None, options=None, **world):
        task = dataclasses.replace(task, record=task.record or tmp_path / "record.json")
        strategy = strategy or declare()
        world = {"pinning": Pinning([], oversubscribed=False)} | world
        run = Run(strategy, task, options or strategy.options(), World(**world))
        run.export_with(lambda: run.initial_state)
        return run

    return make
