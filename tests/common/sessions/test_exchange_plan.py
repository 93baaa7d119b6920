"""Which launches a session of exchanges makes, of what its earlier ones told."""

import pytest

from common.contract.task import PRESETS
from common.declarations import catalogue
from common.declarations.strategy import has_exchange
from common.errors import UserError
from common.measurement.record import declared
from common.records.files import read_record, write_record
from common.records.trace import Message, Trace, trace_path
from common.records.training import Record
from common.sessions import exchange_plan
from common.sessions.exchange_plan import Scope, at_batch, replay, stages, steps_table, traced, with_batch, worth_trying
from tests.changes import changed

SCOPE = Scope(strategies=("torch_ddp",), repetitions=2)
[DDP] = SCOPE.chosen()
BATCH = PRESETS["pathway"].batch


def whole_step(repetition):
    """The launch of a round that trains with exchange."""
    launches = exchange_plan.whole_steps(SCOPE, repetition)
    [step] = [each for each in launches if each.strategy is DDP and has_exchange(each.options)]
    return step


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
    write_record(path, trace)
    return path


def leave_steps(folder, base, step, alone, scope=SCOPE, repetitions=(1, 2), status="ok"):
    """Records of rounds in which steps took so many seconds."""
    for repetition in repetitions:
        for launch in exchange_plan.whole_steps(scope, repetition):
            of_strategy = step if has_exchange(launch.options) else alone
            seconds = of_strategy if launch.strategy in scope.chosen() else base
            known = declared(launch.strategy, launch.task, launch.options, launch.workers)
            windows = [{"rank": 0, "step": 50, "steps": 10, "seconds": 10 * seconds}]
            record = Record(**known, status=status, started_at="2026-01-31T12:00:00+00:00", windows=windows)
            write_record(folder / f"{launch.name}.json", changed(record, examples_per_step=BATCH))


def names_of_rounds(scope, folder):
    """Of each round the names of its launches, in alphabetical order, and the plan; all larger batches pay."""
    made = []
    for stage in stages(scope, 7, folder):
        made.append(stage)
        if stage.title == f"round {scope.rounds} of {scope.rounds}":
            leave_steps(folder, base=2e-3, step=5e-3, alone=2e-3, scope=scope)
    return {stage.title: sorted(each.name for each in stage.launches) for stage in made}, steps_table(made, 7)


def test_a_session_begins_with_the_traces_and_goes_on_with_rounds(tmp_path):
    leave_trace(tmp_path)
    made, titles, launches = [], [], []
    for stage in stages(SCOPE, 7, tmp_path):
        made.append(stage)
        titles.append(stage.title)
        launches.append(sorted(each.name for each in stage.launches))
        if stage.title == "round 2 of 2":
            leave_steps(tmp_path, base=2e-3, step=2e-3, alone=2e-3)
    assert titles == ["traces", "round 1 of 2", "round 2 of 2"]
    assert launches[0] == ["traces/torch_ddp-pathway-weak-2w-00"]
    assert launches[2] == [
        "replays/torch_ddp-2w-02",
        "torch_ddp-pathway-weak-2w-02",
        "torch_ddp-pathway-weak-2w-no_exchange-02",
        "torch_single-pathway-weak-1w-02",
    ]
    plan = steps_table(made, 7)
    assert steps_table(made[:1], 7).empty
    assert (len(plan), *plan["order_seed"].unique(), *plan["repetition"].unique()) == (2 * 3, 7, 1, 2)


def test_where_it_would_pay_a_session_ends_with_rounds_at_larger_batches(tmp_path):
    found, plan = names_of_rounds(SCOPE, tmp_path)
    assert [*found][3:] == ["larger batches, round 1 of 2", "larger batches, round 2 of 2"]
    names = found["larger batches, round 1 of 2"]
    assert names == [
        "torch_ddp-pathway-weak-2w-200rows-01",
        "torch_ddp-pathway-weak-2w-96rows-01",
        "torch_single-pathway-weak-1w-200rows-01",
        "torch_single-pathway-weak-1w-96rows-01",
    ]
    assert len(plan) == 2 * 3 + 2 * 4
    assert sorted(plan["launch"][2 * 3 :]) == sorted([*names, *found["larger batches, round 2 of 2"]])
    assert [*plan["repetition"][2 * 3 :]] == 4 * [1] + 4 * [2]


def test_strategies_that_are_tried_at_the_same_batch_have_one_launch_of_their_base(tmp_path):
    scope = Scope(strategies=("torch_ddp", "torch_sync_sgd"), repetitions=2)
    names, _ = names_of_rounds(scope, tmp_path)
    assert names["larger batches, round 1 of 2"] == [
        "torch_ddp-pathway-weak-2w-200rows-01",
        "torch_ddp-pathway-weak-2w-96rows-01",
        "torch_single-pathway-weak-1w-200rows-01",
        "torch_single-pathway-weak-1w-96rows-01",
        "torch_sync_sgd-pathway-weak-2w-200rows-01",
        "torch_sync_sgd-pathway-weak-2w-96rows-01",
    ]


def test_without_a_trace_nothing_is_replayed(tmp_path):
    assert replay(SCOPE, whole_step(1), tmp_path) is None


def test_a_replay_sends_the_trace_by_its_library_and_knows_the_whole_step_of_its_round(tmp_path):
    path = leave_trace(tmp_path)
    planned = replay(SCOPE, whole_step(2), tmp_path)
    assert planned.launch.library is catalogue.find_library("gloo")
    sweep = planned.launch.sweep
    assert (sweep.messages, sweep.data_type, sweep.workers) == (path, "float16", 2)
    assert planned.launch.replayed.launch == "torch_ddp-pathway-weak-2w-02"


def test_a_batch_is_tried_where_the_account_says_that_it_would_pay(tmp_path):
    # T_sync is 1.5 times T_comp, and contention 1: two workers break even with 1.5 times as many rows.
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


def test_a_round_with_a_failed_launch_does_not_count_and_the_others_do(tmp_path):
    leave_steps(tmp_path, base=2e-3, step=5e-3, alone=2e-3, repetitions=(1,))
    leave_steps(tmp_path, base=2e-3, step=9e-3, alone=2e-3, repetitions=(2,))
    assert worth_trying(SCOPE, DDP, tmp_path) == [(DDP, 160), (DDP, 320)]
    base = next(each for each in exchange_plan.whole_steps(SCOPE, 2) if each.strategy.name == DDP.base)
    path = tmp_path / f"{base.name}.json"
    write_record(path, changed(read_record(path, Record), status="failed", reason="It broke."))
    assert worth_trying(SCOPE, DDP, tmp_path) == [(DDP, 96), (DDP, 200)]


def test_no_batch_is_tried_where_no_round_is_whole(tmp_path):
    leave_steps(tmp_path, base=2e-3, step=5e-3, alone=2e-3, status="failed")
    assert worth_trying(SCOPE, DDP, tmp_path) == []


def test_no_batch_is_tried_of_what_is_not_synchronous(tmp_path):
    scope = Scope(strategies=("tf_parameter_server",), repetitions=2)
    [strategy] = scope.chosen()
    leave_steps(tmp_path, base=2e-3, step=5e-3, alone=2e-3, scope=scope)
    assert worth_trying(scope, strategy, tmp_path) == []


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
