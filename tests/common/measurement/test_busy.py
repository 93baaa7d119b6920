"""common/measurement/busy.py: every step is longer by the share that was asked for, by construction."""

import sys

import pytest

from common.contract.task import Task
from common.measurement import busy
from common.measurement.run import Run

TASK = Task(steps=41, warmup_steps=1, window_steps=10)


@pytest.fixture
def ticking(time, monkeypatch):
    """A time of which a reading takes a microsecond, and nothing else takes any."""

    def tick():
        time.now += 1e-6

    time.on_reading = tick
    monkeypatch.setattr(busy, "time", time)
    return time


@pytest.mark.parametrize("at_once", [1, 4])
def test_busy_work_is_5_percent_of_what_steps_take_but_for_the_first_which_compiles(
    one_worker, ticking, monkeypatch, at_once
):
    observe = Run.observe

    def windows(seconds):
        """The seconds per step of each window of a run whose steps take so many in turn, some of them in one call."""
        monkeypatch.setattr(Run, "observe", busy.with_busy_work(observe))
        run, lasts = one_worker(TASK), iter(seconds)
        for batches in run.grouped_steps(at_once):
            ticking.now += sum(next(lasts) for _ in batches)
            run.observe([1.0] * len(batches), steps=len(batches))
        return [window.seconds / window.steps for window in run.clock.windows]

    assert windows([5.0, *[0.01] * 40]) == pytest.approx([0.01, 0.0105, 0.0105, 0.0105], rel=1e-3)
    assert windows([*[0.01] * 21, *[0.02] * 20]) == pytest.approx([0.01, 0.0105, 0.0205, 0.021], rel=1e-3)


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
