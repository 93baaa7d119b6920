"""A session of exchanges as a user starts it, its launches, and what becomes of a trace."""

from functools import partial

import pytest

from common.contract.task import PRESETS
from common.declarations import catalogue
from common.declarations.strategy import has_exchange
from common.laboratory import exchanges
from common.laboratory.exchanges import Scope, at_batch, batches_to_try, replay, stages, steps_table, traced
from common.launching.executor import HERE
from common.launching.launch import python_for
from common.records.collective_times import CollectivesRecord
from common.records.files import read_record, read_records, write_record
from common.records.trace import STEP, Message, Trace, read_trace, trace_path
from common.records.training import Record
from common.sessions.experiment import run
from tests.launching import left_by

STRATEGY = catalogue.find("jax_tensor_parallel")
"""It can be traced, and its step has no exchange to switch off: a round of it is short."""

SCOPE = Scope(strategies=("torch_ddp",), repetitions=2)
[DDP] = SCOPE.chosen


@pytest.mark.grid
def test_a_session_replays_the_messages_of_its_trace_beside_the_whole_step_and_reports_it(tmp_path, run_here, capsys):
    python_for(STRATEGY)
    few = ["--strategies", STRATEGY.name, "--preset", "digits", "--repetitions", "1", "--iterations", "3"]
    assert run_here(partial(run, exchanges.EXPERIMENT), tmp_path, *few) == 0
    [folder] = tmp_path.glob("*-exchanges")
    [path] = (folder / "traces").glob("*.messages")
    [replay] = read_records(folder / "replays", CollectivesRecord).values()
    [cell] = replay.cells
    messages = read_trace(path).messages
    assert (cell.status, cell.collective, cell.messages) == ("ok", STEP, messages)
    assert cell.size_bytes == sum(each.size_bytes for each in messages) > 0
    assert list(map(len, cell.entered_seconds)) == [3, 3]
    assert (replay.replayed.strategy, replay.repetition) == (STRATEGY.name, 1)
    assert (folder / f"{replay.replayed.launch}.json").exists()
    assert "\n4 launches: 4 ok, 0 unsupported, 0 failed.\n" in capsys.readouterr().out
    assert (tmp_path / "out.pdf").read_bytes().startswith(b"%PDF")
    assert "exchanges (" in (tmp_path / "out.html").read_text()


def trace_of(strategy, messages, **changes):
    values = {"source": "a profiler", "library": "gloo", "data_type": "float32"} | changes
    return Trace(strategy=strategy.name, workers=2, messages=[*messages], **values)


MESSAGE = Message(collective="all_reduce", size_bytes=8)


def test_a_trace_that_leaves_no_messages_of_its_own_has_failed(monkeypatch, tmp_path):
    launch = traced(Scope(), STRATEGY)
    path = tmp_path / f"{launch.name}.json"

    def trace(messages=(), **ended):
        """The record of a session's trace that ends so and leaves these messages, if any."""

        def run_planned(planned, folder, hosts):
            write_record(path, record := left_by(planned, **ended))
            if messages:
                write_record(trace_path(path), trace_of(STRATEGY, messages))
            return record

        monkeypatch.setattr(exchanges, "run_planned", run_planned)
        record = exchanges.make(launch, tmp_path, HERE)
        assert read_record(path, Record) == record
        return record.status, record.reason

    assert trace(status="unsupported", reason="It sends nothing.") == ("unsupported", "It sends nothing.")
    assert trace([MESSAGE], status="ok") == ("ok", None)
    # Messages of an earlier trace do not count.
    assert trace(status="ok") == ("failed", "It left no messages.")


def leave_trace(folder):
    path = trace_path(folder / "traces" / f"{traced(SCOPE, DDP).name}.json")
    write_record(path, trace_of(DDP, [MESSAGE], data_type="float16"))
    return path


def leave_steps(folder, base, step, alone, scope=SCOPE, repetitions=(1, 2), status="ok"):
    """Records of rounds in which steps took so many seconds."""
    for repetition in repetitions:
        for launch in exchanges.whole_steps(scope, repetition):
            of_strategy = step if has_exchange(launch.options) else alone
            seconds = of_strategy if launch.strategy in scope.chosen else base
            write_record(folder / f"{launch.name}.json", left_by(launch, seconds, status=status))


def test_a_session_has_traces_and_rounds_and_where_it_would_pay_rounds_at_larger_batches_with_one_shared_base(tmp_path):
    scope = Scope(strategies=("torch_ddp", "torch_sync_sgd"), repetitions=2)
    leave_trace(tmp_path)
    leave_steps(tmp_path, base=2e-3, step=2e-3, alone=2e-3, scope=scope)
    titles = ["traces", "round 1 of 2", "round 2 of 2"]
    assert [stage.title for stage in stages(scope, 7, tmp_path)] == titles
    leave_steps(tmp_path, base=2e-3, step=5e-3, alone=2e-3, scope=scope)
    made = [*stages(scope, 7, tmp_path)]
    assert [stage.title for stage in made] == [*titles, *(f"larger batches, {title}" for title in titles[1:])]
    traces, _, second, *larger = (sorted(each.name for each in stage.launches) for stage in made)
    assert traces == [f"traces/{name}-pathway-weak-2w-00" for name in scope.strategies]
    assert second == [
        "replays/torch_ddp-2w-02",
        "torch_ddp-pathway-weak-2w-02",
        "torch_ddp-pathway-weak-2w-no_exchange-02",
        "torch_single-pathway-weak-1w-02",
        "torch_sync_sgd-pathway-weak-2w-02",
        "torch_sync_sgd-pathway-weak-2w-no_exchange-02",
    ]
    assert larger[0] == [
        f"{name}-pathway-weak-{workers}w-{rows}rows-01"
        for name, workers in (("torch_ddp", 2), ("torch_single", 1), ("torch_sync_sgd", 2))
        for rows in (200, 96)
    ]
    plan = steps_table(made, 7)
    assert steps_table(made[:1], 7).empty
    assert [*plan["repetition"]] == 5 * [1] + 5 * [2] + 6 * [1] + 6 * [2]
    assert (sorted(plan["launch"][10:]), *plan["order_seed"].unique()) == (sorted([*larger[0], *larger[1]]), 7)


def test_a_replay_sends_the_trace_by_its_library_and_knows_the_whole_step_of_its_round(tmp_path):
    steps = [each for each in exchanges.whole_steps(SCOPE, 2) if each.strategy is DDP]
    [step] = [each for each in steps if has_exchange(each.options)]
    assert replay(SCOPE, step, tmp_path) is None
    path = leave_trace(tmp_path)
    planned = replay(SCOPE, step, tmp_path)
    assert planned.library is catalogue.find_library("gloo")
    sweep = planned.sweep
    assert (sweep.messages, sweep.data_type, sweep.workers) == (path, "float16", 2)
    assert planned.replayed.launch == "torch_ddp-pathway-weak-2w-02"


@pytest.mark.parametrize(
    ("name", "step", "alone", "status", "batches"),
    [
        # T_sync is 1.5 times T_comp, and contention 1: two workers break even with 1.5 times as many rows.
        ("torch_ddp", 5e-3, 2e-3, "ok", [96, 200]),
        # It pays as it is, never would, would with more rows than there are, can't be told, and isn't synchronous.
        ("torch_ddp", 3e-3, 2e-3, "ok", []),
        ("torch_ddp", 6e-3, 4e-3, "ok", []),
        ("torch_ddp", 2.0, 2e-3, "ok", []),
        ("torch_ddp", 5e-3, 2e-3, "failed", []),
        ("tf_parameter_server", 5e-3, 2e-3, "ok", []),
    ],
)
def test_a_batch_is_tried_where_the_account_says_that_it_would_pay(tmp_path, name, step, alone, status, batches):
    scope = Scope(strategies=(name,), repetitions=2)
    leave_steps(tmp_path, base=2e-3, step=step, alone=alone, scope=scope, status=status)
    assert batches_to_try(scope, catalogue.find(name), tmp_path) == batches


def test_a_round_with_a_failed_launch_does_not_count_and_the_others_do(tmp_path):
    leave_steps(tmp_path, base=2e-3, step=5e-3, alone=2e-3, repetitions=(1,))
    leave_steps(tmp_path, base=2e-3, step=9e-3, alone=2e-3, repetitions=(2,))
    assert batches_to_try(SCOPE, DDP, tmp_path) == [160, 320]
    base = next(each for each in exchanges.whole_steps(SCOPE, 2) if each.strategy.name == DDP.base)
    write_record(tmp_path / f"{base.name}.json", left_by(base, status="failed", reason="It broke."))
    assert batches_to_try(SCOPE, DDP, tmp_path) == [96, 200]


def test_a_larger_batch_takes_as_many_windows_and_about_as_many_rows():
    task = PRESETS["pathway"]
    *_, larger = (each.task for each in at_batch(SCOPE, DDP, 4 * task.batch, 1))
    windows = (larger.steps - larger.warmup_steps) / larger.window_steps
    assert windows == (task.steps - task.warmup_steps) / task.window_steps
    assert larger.steps * larger.batch == pytest.approx(task.steps * task.batch, rel=0.15)
