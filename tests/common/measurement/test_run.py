"""common/measurement/run.py: the measured loop, driven by NumPy workers in threads, and by a time that tests move."""

import dataclasses
import json
import re
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.contract import dataset
from common.contract.evidence import evidence_path, read_evidence
from common.contract.oracle import run_oracle
from common.contract.rows import RowOrder
from common.contract.task import Task
from common.contract.work import Work
from common.errors import LaunchFailedError, UserError
from common.measurement import machine, record
from common.measurement import run as run_module
from common.measurement.disturbance import Meter
from common.records.files import read_record
from common.records.header import PRESENTATION
from common.records.metrics import throughput
from common.records.training import Memory, Record
from tests.common.conftest import NUMPY, ThreadOptions

TASK = Task(steps=30, warmup_steps=6, window_steps=10)


def trained(run, rows=lambda batch: 64, **facts):
    """The record of a run whose loss is 1 in every step."""
    for batch in run.steps():
        run.observe(1.0, rows(batch))
    run.finish(**facts)
    return read_record(run.record_path, Record)


def test_rank_0_writes_one_record_with_every_key_of_the_schema_and_prints_it_once(
    numpy_launch, monkeypatch, tmp_path, capsys
):
    rows = dataclasses.replace(dataset.load(TASK), name="Fashion-MNIST")
    monkeypatch.setattr(dataset, "load", lambda task: rows)
    task = dataclasses.replace(TASK, record=tmp_path / "new" / "record.json")
    record = numpy_launch(task, 2, world={"backend": "threads", "device": "Some GPU"}).record
    assert [*task.record.parent.iterdir()] == [task.record]
    assert set(json.loads(task.record.read_text())) == {*Record.__struct_fields__, "payload"} - {*PRESENTATION}
    assert (record.status, record.world_size, record.task.steps) == ("ok", 2, 30)
    assert (record.backend, record.device, record.oversubscribed) == ("threads", "Some GPU", True)
    assert (record.packages_digest, record.versions) == (machine.packages_digest(), machine.versions(NUMPY.packages))
    assert (record.data_sha256, record.data) == (rows.sha256, "Fashion-MNIST")
    assert record.time_to_first_step_s > 0
    assert (record.first_step, record.wire_bytes_per_step, record.checkpoint) == (0, None, None)
    assert [2**24 < peak < 2**40 for peak in record.peak_memory_bytes] == [True, True]
    output = capsys.readouterr().out
    assert output.count("numpy_threads on Fashion-MNIST") == 1
    assert f"{throughput(record).samples_per_second:,.0f} samples/s" in output
    assert "2 (more threads than cores)" in output
    assert "64 (strong scaling)" in output
    assert re.search(r"^step +30/30   rank 0's loss \d", output, re.MULTILINE)
    assert re.search(rf"last loss, global batch +│ {record.losses[-1]:.5f}", output)


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_the_record_has_the_loss_and_the_rows_of_each_workers_own_shard(numpy_launch, world_size):
    record = numpy_launch(TASK, world_size).record
    expected = run_oracle(TASK, 64, 30).shard_losses(world_size)
    assert record.shards == world_size
    assert np.shape(record.shard_losses) == expected.shape == (world_size, 30)
    assert np.allclose(record.shard_losses, expected, rtol=1e-5, atol=0)
    assert record.losses == pytest.approx(expected.mean(axis=0), rel=1e-5)
    assert (record.examples_per_step, record.examples_by_rank) == (64, [30 * 64 // world_size] * world_size)


@pytest.mark.parametrize(
    ("losses", "steps"),
    [
        (1.0, 1),
        (np.array([1.0]), 1),
        ([1.0, 2.0], 1),
        (np.array([1.0, 2.0, 3.0]), 3),
        (np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), 3),
    ],
    ids=["a number", "one shard", "shards", "steps", "steps of shards"],
)
def test_losses_may_come_step_by_step_or_together_of_one_shard_or_of_several(one_worker, losses, steps):
    run = one_worker(dataclasses.replace(TASK, steps=1 + 3 * steps, warmup_steps=1, window_steps=3 * steps))
    by_step = np.reshape(losses, (steps, -1))
    for batches in run.grouped_steps(steps):
        # The first window has one step alone.
        run.observe(losses if len(batches) == steps else by_step[:1], steps=len(batches))
    run.finish()
    found = read_record(run.task.record, Record).shard_losses
    assert np.array_equal(np.transpose(found), np.concatenate([by_step[:1], *[by_step] * 3]))


def test_a_worker_gets_the_rows_of_its_rank_and_without_synchrony_those_of_its_own_update(one_worker, declare):
    order, run = RowOrder(1437, 0), one_worker(TASK, rank=1, size=2)
    assert np.array_equal(next(run.rows(100)), order.cut(100 * 64 + 32, 101 * 64))
    assert len(list(run.rows(3, 7))) == 4
    strategy = declare(work=Work.COORDINATED, synchronous_with={"packed": True})
    run = one_worker(dataclasses.replace(TASK, batch=63), strategy, strategy.options(packed=False), size=2)
    assert run.global_batch == 63
    assert np.array_equal(next(run.steps()).rows, order.cut(0, 63))


def test_rows_are_counted_from_what_the_losses_were_taken_of_or_at_the_end(one_worker):
    counted = trained(one_worker(TASK), lambda batch: np.array([3, 4]) if batch.step else 5)
    assert counted.examples_by_rank == [5 + 29 * 7]
    assert trained(one_worker(TASK), lambda batch: 0, examples=77).examples_by_rank == [77]


def test_a_worker_that_sees_no_loss_leaves_it_to_those_that_do(numpy_launch, declare, capsys):
    parts = declare(work=Work.PARTS_OF_ONE_MODEL)
    launched = numpy_launch(TASK, 2, strategy=parts, loss_of=lambda loss, rank, step: loss if rank else None)
    assert re.search(r"^step +30/30    ", capsys.readouterr().out, re.MULTILINE)
    assert launched.record.examples_by_rank == [30 * 64, 0]
    assert launched.record.losses == pytest.approx(numpy_launch(TASK).record.losses)
    assert re.search(r"^step +30/30   loss \d", capsys.readouterr().out, re.MULTILINE)


@pytest.mark.parametrize(
    ("work", "losses_of", "cause"),
    [
        (Work.DATA_PARALLEL, lambda rank, step: None if rank and step == 29 else 1.0, "losses of 29 of 30 steps"),
        (Work.DATA_PARALLEL, lambda rank, step: [1.0, 1.0] if step == 3 else 1.0, "losses of 30 of 30 steps"),
        (Work.DATA_PARALLEL, lambda rank, step: None if rank else 1.0, "the losses of 1 of 2 shards"),
        (Work.DATA_PARALLEL, lambda rank, step: [1.0, 1.0], "the losses of 4 of 2 shards"),
        (Work.PARTS_OF_ONE_MODEL, lambda rank, step: None, "the losses of 0 of 1 shards"),
    ],
    ids=["all but one", "of other shards once", "of one worker", "of too many shards", "none"],
)
def test_a_strategy_that_keeps_losses_to_itself_leaves_no_record(
    numpy_launch, tmp_path, declare, work, losses_of, cause
):
    with pytest.raises(LaunchFailedError, match=f"leaves no record, since it gave observe.. {cause}"):
        numpy_launch(TASK, 2, strategy=declare(work=work), loss_of=lambda loss, rank, step: losses_of(rank, step))
    assert not [*tmp_path.rglob("*.json")]


def test_ranks_that_were_given_different_data_leave_no_record(numpy_launch, tmp_path):
    def read_elsewhere(run, rank):
        run.dataset = dataclasses.replace(run.dataset, sha256=f"of host {rank}")

    with pytest.raises(LaunchFailedError, match="The ranks trained on different rows of digits: give"):
        numpy_launch(TASK, 2, on_step=read_elsewhere)
    assert not [*tmp_path.rglob("*.json")]


def test_what_a_worker_holds_and_what_its_strategy_knows_beside_it_are_in_the_record(one_worker):
    run, sizes = one_worker(TASK), {"parameters": 12, "gradients": 12, "optimizer_state": 0}
    run.export_with(lambda: run.initial_state, lambda: sizes)
    held = np.ones(10_000_000)
    record = trained(run, restarted_workers=2, staleness=[0, 1])
    [memory] = record.memory_bytes
    assert memory.above_import > 0.9 * held.nbytes
    assert memory == Memory(**sizes, above_import=memory.above_import)
    assert (record.restarted_workers, record.staleness) == (2, [0, 1])


CHECKING = ThreadOptions(check_replicas=True)


def test_the_first_replica_that_differs_by_a_bit_is_named_with_parameter_and_step(numpy_launch):
    def spoil(state, rank, step):
        if (rank, step) == (1, 4):
            state["layer1.bias"].view(np.uint32)[3] ^= 1

    with pytest.raises(LaunchFailedError, match=r"After step 4 the parameter layer1.bias of rank 1 differs"):
        numpy_launch(TASK, 2, options=CHECKING, spoil=spoil)
    numpy_launch(TASK, 2, spoil=spoil)


def test_replicas_of_one_process_are_compared_too_after_the_last_step_of_a_call(one_worker):
    run = one_worker(TASK, options=CHECKING)
    replicas = [run.initial_state, run.initial_state]
    run.export_with(lambda: run.initial_state, replicas=lambda: replicas)
    groups = run.grouped_steps(4)
    next(groups)
    run.observe(1.0, 64)
    replicas[1] = run.initial_state | {"layer0.bias": run.initial_state["layer0.bias"] + 1}
    assert [batch.step for batch in next(groups)] == [1, 2, 3, 4]
    with pytest.raises(LaunchFailedError, match=r"After step 4 the parameter layer0\.bias of rank 1"):
        run.observe([1.0] * 4, 256, steps=4)


# Evidence


def evidence_of(record):
    return read_evidence(evidence_path(Path(record.task.record)), record.evidence_sha256)


def test_a_run_leaves_evidence_of_its_replicas_beside_its_record(one_worker, declare):
    run = one_worker(TASK, declare(work=Work.REPLICAS_IN_ONE_PROCESS), size=2)
    replicas = [dict(run.initial_state), dict(run.initial_state)]
    run.export_with(lambda: replicas[0], replicas=lambda: replicas)
    for batch in run.steps():
        if batch.step == 1:
            replicas[1]["layer0.bias"] = replicas[1]["layer0.bias"] + 1
        run.observe([1.0, 1.0], len(batch.rows))
    run.finish()
    record = read_record(run.record_path, Record)
    evidence = evidence_of(record)
    [first, *_, last] = evidence
    assert (first, last) == (0, TASK.steps)
    assert len(evidence) >= 8
    assert evidence[1][0] is evidence[1][1]
    assert np.array_equal(evidence[last][1]["layer0.bias"], evidence[last][0]["layer0.bias"] + 1)
    assert sum(window.steps for window in record.windows) == TASK.steps - TASK.warmup_steps


def test_evidence_of_workers_that_differ_comes_from_each_of_them(numpy_launch):
    def spoil(state, rank, step):
        state["layer1.bias"][:] = rank

    evidence = evidence_of(numpy_launch(TASK, 4, spoil=spoil).record)
    assert [state["layer1.bias"][0] for state in evidence[TASK.steps]] == [0.0, 1.0, 2.0, 3.0]


def test_a_run_that_goes_on_with_momentum_has_it_in_its_first_evidence_alone(one_worker, tmp_path):
    run = one_worker(dataclasses.replace(TASK, momentum=0.5, checkpoint=tmp_path / "state"))
    run.initial_state |= {f"{name}.momentum": value for name, value in run.initial_state.items()}
    evidence = evidence_of(trained(run))
    assert "layer0.bias.momentum" in evidence[0][0]
    assert "layer0.bias.momentum" not in evidence[1][0]


def test_what_is_asynchronous_or_declares_no_recipe_leaves_no_evidence(one_worker, declare):
    for strategy in (declare(synchronous_with={"check_replicas": True}), declare(alone=None)):
        options = strategy.options(exchange=bool(strategy.synchronous_with))
        run = one_worker(TASK, strategy, options, size=2, all_gather=lambda value: [value, value])
        assert not run._windows.evidence


# Refusals before any step


def test_what_the_strategy_cannot_have_is_refused_before_training(one_worker, declare, monkeypatch):
    def refuse(task, options, workers, gpus):
        raise UserError(f"Not {task.steps} steps with {options.prefetch} ahead by {workers} workers on {gpus} GPUs.")

    monkeypatch.setattr(machine, "gpu_names", lambda: ["one", "two"])
    strategy = declare(check=refuse)
    with pytest.raises(UserError, match="Not 30 steps with 3 ahead by 7 workers on 2 GPUs"):
        one_worker(TASK, strategy, strategy.options(prefetch=3), size=7)


@pytest.mark.parametrize("option", ["record", "checkpoint"])
def test_a_file_that_cannot_be_written_is_refused_before_training(one_worker, refusal, tmp_path, option):
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "out"
    assert str(path) in refusal(lambda: one_worker(dataclasses.replace(TASK, **{option: path})))


# The clock


def test_neither_the_time_nor_the_bytes_of_a_checkpoint_are_those_of_a_step(numpy_launch, time, monkeypatch, tmp_path):
    sent = 0

    def step(run, rank):
        nonlocal sent
        sent, time.now = sent + 100, time.now + 1.0

    def slow_write(path, checkpoint, task):
        nonlocal sent
        sent, time.now = sent + 10**6, time.now + 1000.0

    monkeypatch.setenv(machine.PRIVATE_NETWORK, "1")
    monkeypatch.setattr(machine, "bytes_sent", lambda interface: sent)
    monkeypatch.setattr(run_module, "write_checkpoint", slow_write)
    task = dataclasses.replace(TASK, checkpoint=tmp_path / "state", checkpoint_steps=7)
    record = numpy_launch(task, on_step=step).record
    assert [(window.step, window.steps, window.seconds) for window in record.windows] == [
        *((6, 1, 1.0), (7, 7, 7.0), (14, 2, 2.0), (16, 5, 5.0), (21, 5, 5.0), (26, 2, 2.0), (28, 2, 2.0)),
    ]
    assert [entry.training_seconds for entry in record.accuracies] == [7.0, 14.0, 21.0, 28.0, 30.0]
    assert record.wire_bytes_per_step == 100


def test_a_checkpoint_that_rank_0_saves_is_in_no_other_ranks_window(numpy_launch, time, monkeypatch, tmp_path):
    saving, read_meanwhile = threading.Event(), threading.Event()

    def on_reading():
        time.now += 0.001
        if saving.is_set():
            read_meanwhile.set()

    def slow_write(path, checkpoint, task):
        saving.set()
        read_meanwhile.wait(0.3)  # Time enough for another rank to start its next window, if nothing holds it.
        time.now += 1000.0
        saving.clear()

    time.on_reading = on_reading
    monkeypatch.setattr(run_module, "write_checkpoint", slow_write)
    task = dataclasses.replace(TASK, checkpoint=tmp_path / "state", checkpoint_steps=16)
    record = numpy_launch(task, 2).record
    assert max(window.seconds for window in record.windows) < 1


def test_nothing_is_read_between_the_start_and_the_stop_of_a_windows_clock(one_worker, time, monkeypatch):
    events = []

    class Lazy:
        def __float__(self):
            events.append("r")
            return 1.0

        def __array__(self, dtype=None, copy=None):
            events.append("n")
            return np.array(64)

    time.on_reading = lambda: events.append("C")
    monkeypatch.setenv(machine.PRIVATE_NETWORK, "1")
    monkeypatch.setattr(machine, "bytes_sent", lambda interface: events.append("b") or 0)
    monkeypatch.setattr(Meter, "start", lambda meter: events.append("m"))
    monkeypatch.setattr(Meter, "stop", lambda meter, window: events.append("m") or window)
    run = one_worker(Task(steps=9, warmup_steps=3, window_steps=2), synchronize=lambda: events.append("S"))
    for _ in run.steps():
        time.now += 1.0
        events.append("s")
        run.observe(Lazy(), Lazy())
    # Once for when the process started. Then clock, steps, synchronize, time, reads of losses and rows; then the clock
    # once more for the line that is printed. The bytes of what is clocked come first and last but for the meter: while
    # that reads, another rank may send for its next window.
    expected = "CbCsSC[rn]+C?" + "bCssSC[rn]+C?" + "bmCssSCbm[rn]+C?" * 3
    assert re.fullmatch(expected, "".join(events)), "".join(events)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
@given(st.integers(1, 12), st.integers(1, 40), st.integers(1, 9), st.integers(2, 20), st.integers(0, 15))
def test_groups_of_steps_change_neither_windows_nor_rows_nor_losses_nor_checkpoints(
    one_worker, time, tmp_path, monkeypatch, warmup, measured, window, most, every
):
    task = Task(
        steps=warmup + measured,
        warmup_steps=warmup,
        window_steps=window,
        checkpoint_steps=every,
        checkpoint=tmp_path / "never_written",
    )
    saved, found = [], []
    monkeypatch.setattr(run_module, "write_checkpoint", lambda path, checkpoint, task: saved.append(checkpoint.step))
    for module, name in ((record, "of_launch"), (run_module, "write_record"), (record, "print_result")):
        monkeypatch.setattr(module, name, lambda *_, **__: None)
    for size in (1, most):
        gathered, rows, time.now = [], [], 0.0
        saved.clear()
        run = one_worker(task, all_gather=lambda value, gathered=gathered: gathered.append(value) or [value])
        for batches in ([batch] for batch in run.steps()) if size == 1 else run.grouped_steps(size):
            assert 1 <= len(batches) <= size
            time.now += 1.0 * len(batches)
            rows += [batch.rows for batch in batches]
            losses = np.array([float(batch.step) for batch in batches])
            run.observe(losses, [len(batch.rows) for batch in batches], steps=len(batches))
        run.finish()
        found.append((np.concatenate(rows).tolist(), gathered[-1].windows, [*saved]))
        assert gathered[-1].losses == [[float(step)] for step in range(task.steps)]
        assert gathered[-1].examples == 64 * task.steps
    assert found[0] == found[1]
    assert saved == [*(step for step in range(1, task.steps) if every and step % every == 0), task.steps]


def test_a_window_whose_steps_were_not_all_observed_is_an_error_of_the_strategy(one_worker):
    run = one_worker(TASK)
    with pytest.raises(RuntimeError, match=r"numpy_threads must call observe\(\)"):
        for _ in run.steps():
            pass
