"""Which launches a session of exchanges makes, of what its earlier ones told."""

import dataclasses

import pandas
import pytest

from common import catalogue
from common.contract.task import PRESETS
from common.errors import UserError
from common.laboratory import exchange_plan
from common.laboratory.exchange import Message, Trace, trace_path, write_trace
from common.laboratory.exchange_plan import Scope, at_batch, replay, rounds, traced, with_batch, worth_trying
from common.measurement.record import Record, declared, write_record
from common.strategy import has_exchange

SCOPE = Scope(strategies=("torch_ddp",), repetitions=2)
[DDP] = SCOPE.chosen()
BATCH = PRESETS["pathway"].batch


def leave_trace(folder):
    """What the traced launch of the strategy leaves."""
    trace = Trace(
        strategy=DDP.name,
        workers=2,
        source="a profiler",
        library="gloo",
        data_type="float16",
        messages=[Message(collective="all_reduce", size_bytes=8)],
    )
    path = trace_path(folder / "traces" / f"{traced(SCOPE, DDP).name}.json")
    path.parent.mkdir()
    write_trace(path, trace)
    return path


def leave_steps(folder, base, step, alone):
    """Records of two rounds in which steps took so many seconds."""
    for repetition in (1, 2):
        for launch in exchange_plan.whole_steps(SCOPE, repetition):
            seconds = base if launch.strategy is not DDP else step if has_exchange(launch.options) else alone
            known = declared(launch.strategy, launch.task, launch.options, launch.workers)
            windows = [{"rank": 0, "step": 50, "steps": 10, "seconds": 10 * seconds}]
            record = Record(**known, status="ok", started_at="2026-01-31T12:00:00+00:00", windows=windows)
            write_record(folder / f"{launch.name}.json", dataclasses.replace(record, examples_per_step=BATCH))


def test_a_session_begins_with_the_traces_and_goes_on_with_rounds(tmp_path):
    leave_trace(tmp_path)
    titles, launches = [], []
    for title, planned in rounds(SCOPE, 7, tmp_path):
        titles.append(title)
        launches.append(sorted(each.name for each in planned))
        if title == "round 2 of 2":
            leave_steps(tmp_path, base=2e-3, step=2e-3, alone=2e-3)
    assert titles == ["traces", "round 1 of 2", "round 2 of 2"]
    assert launches[0] == ["traces/torch_ddp-pathway-weak-2w-00"]
    assert launches[2] == [
        "replays/torch_ddp-2w-02",
        "torch_ddp-pathway-weak-2w-02",
        "torch_ddp-pathway-weak-2w-no_exchange-02",
        "torch_single-pathway-weak-1w-02",
    ]
    plan = pandas.read_csv(tmp_path / "plan.csv")
    assert (len(plan), *plan["order_seed"].unique(), *plan["repetition"].unique()) == (2 * 3, 7, 1, 2)


def test_without_a_trace_nothing_is_replayed(tmp_path):
    assert replay(SCOPE, DDP, 1, tmp_path) == []


def test_a_replay_sends_the_trace_by_its_library_and_knows_the_whole_step_of_its_round(tmp_path):
    path = leave_trace(tmp_path)
    [planned] = replay(SCOPE, DDP, 2, tmp_path)
    assert planned.launch.library is catalogue.find_library("gloo")
    sweep = planned.launch.sweep
    assert (sweep.messages, sweep.data_type, sweep.workers) == (path, "float16", 2)
    assert planned.launch.replayed["launch"] == "torch_ddp-pathway-weak-2w-02"


def test_a_batch_is_tried_where_the_account_says_that_it_would_pay(tmp_path):
    # T_sync is as long as T_comp, and contention 1: two workers break even with as many rows as there are, times 1.
    leave_steps(tmp_path, base=2e-3, step=5e-3, alone=2e-3)
    assert worth_trying(SCOPE, DDP, tmp_path) == [(DDP, 96), (DDP, 200)]


def test_no_batch_is_tried_where_it_pays_as_it_is_or_never_would(tmp_path):
    leave_steps(tmp_path, base=2e-3, step=3e-3, alone=2e-3)
    assert worth_trying(SCOPE, DDP, tmp_path) == []
    leave_steps(tmp_path, base=2e-3, step=6e-3, alone=4e-3)
    assert worth_trying(SCOPE, DDP, tmp_path) == []


def test_no_batch_is_tried_that_has_more_rows_than_there_are(tmp_path):
    leave_steps(tmp_path, base=2e-3, step=2.0, alone=2e-3)
    assert worth_trying(SCOPE, DDP, tmp_path) == []


def test_strategy_and_base_are_launched_at_the_batch_under_names_of_their_own():
    base, strategy = at_batch(SCOPE, DDP, 200, 1)
    assert (base.name, strategy.name) == (
        "torch_single-pathway-weak-1w-200rows-01",
        "torch_ddp-pathway-weak-2w-200rows-01",
    )
    assert base.task.batch == strategy.task.batch == 200


def test_a_larger_batch_takes_as_many_windows_and_about_as_many_rows():
    task = PRESETS["pathway"]
    larger = with_batch(task, 4 * task.batch)
    windows = (larger.steps - larger.warmup_steps) / larger.window_steps
    assert windows == (task.steps - task.warmup_steps) / task.window_steps
    assert larger.steps * larger.batch == pytest.approx(task.steps * task.batch, rel=0.15)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"strategies": ("torch_single",)}, "distributes nothing"),
        ({"strategies": ("torch_dpp",)}, "torch_dpp"),
        ({"preset": "mnits"}, "no preset named 'mnits'"),
        ({"workers": 1}, "--workers 1"),
        ({"repetitions": 0}, "above 0"),
        ({"iterations": 0}, "above 0"),
    ],
)
def test_what_can_not_be_meant_is_refused(values, said):
    with pytest.raises(UserError, match=said):
        Scope(**values)
