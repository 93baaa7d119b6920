"""common/measurement/busy.py: every step is longer by the share that was asked for, by construction."""

import itertools
import sys
from types import SimpleNamespace

import pytest

from common.contract.task import Task
from common.measurement import busy
from common.measurement import clock as clock_module
from common.measurement import run as run_module
from common.measurement.run import Run
from common.records.metrics import window_seconds_per_step

TASK = Task(steps=60, warmup_steps=20, window_steps=10)


class Time:
    """Takes the place of the module `time`: a reading takes a microsecond, and nothing else takes any."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        self.now += 1e-6
        return self.now


@pytest.fixture
def time(monkeypatch):
    time = Time()
    for module in (clock_module, run_module, busy):
        monkeypatch.setattr(module, "time", time)
    return time


@pytest.fixture
def windows(numpy_launch, time, monkeypatch):
    """A function that gives the seconds per step of each window of a launch, whose steps take so many in turn."""

    def clocked(seconds, share=None):
        lasts = iter(seconds)

        def take_time(run, rank):
            time.now += next(lasts)

        with monkeypatch.context() as patch:
            if share is not None:
                patch.setattr(Run, "observe", busy.with_busy_work(Run.observe, share))
            return window_seconds_per_step(numpy_launch(TASK, on_step=take_time).record)

    return clocked


@pytest.mark.parametrize("share", [busy.SHARE, 0.5])
def test_every_clocked_step_takes_its_share_longer(windows, share):
    ordinary, busier = windows([0.01] * 60), windows([0.01] * 60, share)
    assert len(busier) == 4
    # A reading of the clock is a ten thousandth of a step.
    assert busier == pytest.approx([(1 + share) * seconds for seconds in ordinary], rel=5e-4)


def test_busy_work_follows_what_steps_take_but_for_the_first_which_compiles(windows):
    assert windows([5.0, *[0.01] * 59], 0.05) == pytest.approx([0.0105] * 4, rel=1e-3)
    slower = windows([*[0.01] * 30, *[0.02] * 30], 0.05)
    assert slower == pytest.approx([0.0105, 0.0205, 0.021, 0.021], rel=1e-3)


def test_a_call_of_several_steps_is_followed_by_the_busy_work_of_them_all(time):
    run = SimpleNamespace(clock=SimpleNamespace(training_seconds=0.0))
    started, steps_left = time.now, itertools.cycle([False, True])

    def close_every_second_call(run, losses, rows, steps):
        nonlocal started
        if next(steps_left):
            run.clock.training_seconds += time.now - started
            started = time.now

    observe, ends = busy.with_busy_work(close_every_second_call, 0.05), []
    for _ in range(8):
        time.now += 0.04
        observe(run, [0.0] * 4, steps=4)
        ends.append(run.clock.training_seconds)
    in_windows = [after - before for before, after in itertools.pairwise([0.0, *ends[1::2]])]
    assert in_windows == pytest.approx([0.08, 0.08, 0.084, 0.084], rel=1e-3)


def test_the_script_runs_as_if_it_had_been_started_itself_but_for_what_it_calls_after_every_step(
    tmp_path, monkeypatch, capsys
):
    script = tmp_path / "train.py"
    script.write_text(
        "import sys\nfrom common.measurement.run import Run\n"
        'if __name__ == "__main__":\n    print(sys.argv[1:], __file__ == sys.argv[0], Run.observe.__name__)\n'
    )
    monkeypatch.setattr(sys, "argv", ["busy.py", str(script), "--steps", "60"])
    monkeypatch.setattr(Run, "observe", Run.observe)
    busy.main()
    assert capsys.readouterr().out == "['--steps', '60'] True observe_busily\n"
