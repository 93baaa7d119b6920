"""common/measurement/busy.py: every step is longer by the share that was asked for, by construction."""

import itertools
import sys
from types import SimpleNamespace

import pytest

from common.contract.task import Task
from common.measurement import busy
from common.measurement.run import Run
from common.records.metrics import window_seconds_per_step

TASK = Task(steps=60, warmup_steps=20, window_steps=10)


@pytest.fixture
def ticking(time, monkeypatch):
    """A time of which a reading takes a microsecond, and nothing else takes any."""

    def tick():
        time.now += 1e-6

    time.on_reading = tick
    monkeypatch.setattr(busy, "time", time)
    return time


def test_busy_work_is_5_percent_of_what_steps_take_but_for_the_first_which_compiles(numpy_launch, ticking, monkeypatch):
    observe = Run.observe

    def windows(seconds):
        """The seconds per step of each window of a launch whose steps take so many in turn."""

        def take_time(run, rank):
            ticking.now += next(lasts)

        lasts = iter(seconds)
        monkeypatch.setattr(Run, "observe", busy.with_busy_work(observe))
        return window_seconds_per_step(numpy_launch(TASK, on_step=take_time).record)

    assert windows([5.0, *[0.01] * 59]) == pytest.approx([0.0105] * 4, rel=1e-3)
    slower = windows([*[0.01] * 30, *[0.02] * 30])
    assert slower == pytest.approx([0.0105, 0.0205, 0.021, 0.021], rel=1e-3)


def test_a_call_of_several_steps_is_followed_by_the_busy_work_of_them_all(ticking):
    run = SimpleNamespace(clock=SimpleNamespace(training_seconds=0.0))
    started, steps_left = ticking.now, itertools.cycle([False, True])

    def close_every_second_call(run, losses, rows, steps):
        nonlocal started
        if next(steps_left):
            run.clock.training_seconds += ticking.now - started
            started = ticking.now

    observe, ends = busy.with_busy_work(close_every_second_call, 0.5), []
    for _ in range(8):
        ticking.now += 0.04
        observe(run, [0.0] * 4, steps=4)
        ends.append(run.clock.training_seconds)
    in_windows = [after - before for before, after in itertools.pairwise([0.0, *ends[1::2]])]
    assert in_windows == pytest.approx([0.08, 0.08, 0.12, 0.12], rel=1e-3)


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
