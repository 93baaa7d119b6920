"""common/records/deviation.py: launches that do the contract's maths follow the oracle, others are caught."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from common.contract import mlp, oracle
from common.contract.mlp import KINK_DISTANCE, Kink, Trajectory
from common.contract.oracle import (
    LOSS_BOUND,
    LOSS_FLOOR,
    LOSS_TOLERANCE,
    WEIGHT_BOUND,
    WEIGHT_TOLERANCE,
    certificate_task,
    run_alone,
    run_oracle,
)
from common.contract.rows import RowOrder
from common.contract.task import Task
from common.contract.work import Alone
from common.records.deviation import deviation, deviation_alone
from tests.changes import changed

BASE = Task(steps=100, warmup_steps=10, window_steps=30)

# Seed 0 with tanh has no kinks to excuse a deviation with.
TASK = dataclasses.replace(BASE, activation="tanh")

SCHEDULED = dataclasses.replace(
    TASK, momentum=0.9, weight_decay=1e-3, learning_rate=0.02, final_learning_rate=0.01, decay_steps=50
)

# The seed that the contract tests use for digits.
KINKLESS = dataclasses.replace(BASE, seed=3)

INFINITE = float("inf")


NEAR = Kink(KINK_DISTANCE, step=50, layer=1, unit=3)


@pytest.fixture(scope="module")
def trajectory():
    return run_oracle(TASK, 64, 100)


@pytest.fixture
def checked(numpy_launch, tmp_path, trajectory):
    """A function that launches TASK with two workers, spoiled as it is told, and returns the deviation."""

    def launched_and_compared(world_size=2, task=TASK, expected=trajectory, **spoiled):
        task = dataclasses.replace(task, checkpoint=tmp_path / "state.safetensors")
        launched = numpy_launch(task, world_size, **spoiled)
        return deviation(launched.record, task, tmp_path, expected)

    return launched_and_compared


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_a_launch_that_does_the_contracts_maths_follows(checked, world_size):
    found = checked(world_size)
    assert found.follows
    assert 0 < found.loss < LOSS_TOLERANCE
    assert 0 < found.shard < LOSS_TOLERANCE
    assert 0 < found.weights < WEIGHT_TOLERANCE
    assert found.examples == found.expected_examples == 6400
    assert found.kink is None


def test_a_launch_with_momentum_weight_decay_and_schedule_follows(checked):
    assert checked(task=SCHEDULED, expected=run_oracle(SCHEDULED, 64, 100)).follows


def test_weak_scaling_follows_the_oracle_of_the_resulting_global_batch(checked):
    task = dataclasses.replace(TASK, scaling="weak", batch=16)
    assert checked(4, task=task, expected=run_oracle(task, 64, 100)).follows


def test_the_oracle_of_another_global_batch_is_not_followed(checked):
    assert not checked(2, task=dataclasses.replace(TASK, scaling="weak", batch=64)).follows


def test_a_sum_where_a_mean_belongs_is_caught(checked):
    found = checked(combine=lambda parts: np.sum(parts, axis=0))
    assert not found.follows
    assert found.loss > 100 * LOSS_TOLERANCE
    assert found.weights > 100 * WEIGHT_TOLERANCE


def test_a_rate_scaled_by_the_number_of_workers_is_caught(checked):
    def scaled(gradients, rank):
        return {name: 2 * value for name, value in gradients.items()}

    assert not checked(mend=scaled).follows


@pytest.mark.parametrize("task", [TASK, KINKLESS], ids=["tanh", "relu"])
def test_gradients_rounded_to_float16_are_caught(checked, task):
    def rounded(gradients, rank):
        return {name: value.astype(np.float16).astype(np.float32) for name, value in gradients.items()}

    found = checked(task=task, expected=run_oracle(task, 64, 100), mend=rounded)
    assert not found.follows
    assert found.weights > WEIGHT_TOLERANCE
    assert found.kink is None


def test_gradients_that_are_not_exchanged_are_caught(checked, declare):
    found = checked(options=declare().options(exchange=False))
    assert not found.follows
    assert found.examples == found.expected_examples


def test_a_worker_that_starts_from_other_weights_is_caught(checked, monkeypatch):
    initial_weights, calls = mlp.initial_weights, []

    def skipped_broadcast(task):
        calls.append(task)
        return initial_weights(dataclasses.replace(task, seed=len(calls)))

    monkeypatch.setattr(mlp, "initial_weights", skipped_broadcast)
    assert not checked().follows
    assert len(calls) == 2


def test_workers_that_all_train_on_the_whole_batch_are_caught_by_the_count_and_by_their_shards(checked):
    found = checked(rows_of=lambda run, batch: RowOrder(1437, 0).cut(64 * batch.step, 64 * batch.step + 64))
    assert found.loss < LOSS_TOLERANCE
    assert found.weights < WEIGHT_TOLERANCE
    assert found.examples == 2 * found.expected_examples
    assert found.shard > 1000 * LOSS_TOLERANCE
    assert not found.follows


def test_workers_that_swap_their_shards_are_caught_by_the_shards_alone(checked):
    def others(run, batch):
        start = 64 * batch.step + 32 * (1 - run.world.rank)
        return RowOrder(1437, 0).cut(start, start + 32)

    found = checked(rows_of=others)
    assert found.loss < LOSS_TOLERANCE
    assert found.weights < WEIGHT_TOLERANCE
    assert found.examples == found.expected_examples
    assert found.shard > 1000 * LOSS_TOLERANCE
    assert not found.follows


def test_a_worker_that_trains_on_another_ranks_rows_is_caught(checked):
    found = checked(rows_of=lambda run, batch: RowOrder(1437, 0).cut(64 * batch.step, 64 * batch.step + 32))
    assert found.examples == found.expected_examples
    assert not found.follows


@pytest.fixture
def alone(numpy_launch, declare, tmp_path):
    """A function that launches TASK with two workers that exchange nothing, and returns the deviation from an oracle.

    The oracle is that of workers which do what `kind` says; the workers are spoiled as they are told.
    """

    def launched_and_compared(kind=Alone.OWN_SHARD, task=TASK, **spoiled):
        task = dataclasses.replace(task, checkpoint=tmp_path / f"{kind.name}.safetensors")
        launched = numpy_launch(task, 2, options=declare().options(exchange=False), **spoiled)
        return deviation_alone(launched.record, task, tmp_path, run_alone(task, 64, task.steps, 2, kind))

    return launched_and_compared


def test_workers_that_exchange_nothing_follow_models_of_their_own(alone):
    found = alone()
    assert found.follows
    assert 0 < found.shard < LOSS_TOLERANCE
    assert 0 < found.weights < WEIGHT_TOLERANCE


def test_workers_that_exchange_nothing_have_momentum_weight_decay_and_schedule_all_the_same(alone):
    assert alone(task=SCHEDULED).follows


def test_workers_of_whom_one_leaves_no_losses_follow_nothing(make_record, tmp_path):
    record = make_record(losses=[2.0] * 2, shard_losses=[[1.0] * 2], examples_by_rank=[64])
    expected = Trajectory(np.array([[1.0, 3.0]] * 2), [{}, {}])
    found = deviation_alone(record, Task(steps=2, warmup_steps=1), tmp_path, expected)
    assert (found.loss, found.shard, found.weights) == (0.0, INFINITE, None)


def test_workers_of_whom_one_leaves_no_weights_follow_nothing(make_record, tmp_path):
    shard_losses = [[1.0] * 2, [3.0] * 2]
    record = make_record(losses=[2.0] * 2, shard_losses=shard_losses, checkpoint="weights.safetensors")
    expected = Trajectory(np.array([[1.0, 3.0]] * 2), [{}, {}])
    found = deviation_alone(record, Task(steps=2, warmup_steps=1), tmp_path, expected)
    assert (found.loss, found.shard, found.weights) == (0.0, 0.0, INFINITE)


def test_workers_that_take_their_part_of_the_mean_follow_models_of_their_own(alone):
    def part(gradients, rank):
        return {name: value / np.float32(2) for name, value in gradients.items()}

    assert alone(Alone.OWN_PART, mend=part).follows
    assert not alone(Alone.OWN_SHARD, mend=part).follows


def test_workers_that_own_parameters_train_those_alone(alone):
    owners = oracle.owners_of(TASK, 2)
    assert {*owners} == {*mlp.parameter_names(TASK)}

    def own(gradients, rank):
        return {name: value * (owners[name] == rank) for name, value in gradients.items()}

    assert alone(Alone.OWN_PARAMETERS, mend=own).follows
    assert not alone(Alone.OWN_SHARD, mend=own).follows


def test_a_worker_that_skips_its_backward_pass_is_caught(alone):
    def nothing(gradients, rank):
        return {name: value * (rank != 1) for name, value in gradients.items()}

    found = alone(mend=nothing)
    assert found.shard > 1000 * LOSS_TOLERANCE
    assert found.weights > 1000 * WEIGHT_TOLERANCE


def test_weights_that_only_one_replica_has_moved_in_the_end_are_caught_by_them_alone(alone):
    def at_the_end(state, rank, step):
        if (rank, step) == (1, 99):
            state["layer0.weight"] = state["layer0.weight"] * np.float32(1.0001)

    found = alone(spoil=at_the_end)
    assert found.shard < LOSS_TOLERANCE
    assert found.weights > WEIGHT_TOLERANCE


def test_workers_that_do_exchange_are_caught(numpy_launch, tmp_path):
    task = dataclasses.replace(TASK, checkpoint=tmp_path / "state.safetensors")
    record = numpy_launch(task, 2).record
    found = deviation_alone(record, task, tmp_path, run_alone(task, 64, 100, 2, Alone.OWN_SHARD))
    assert found.loss > LOSS_TOLERANCE
    assert found.weights == INFINITE


@pytest.fixture
def hand_made():
    """A task without checkpoint, and an oracle of 120 losses for it, the same for each of four rows."""
    task = Task(steps=120, warmup_steps=10)
    return task, Trajectory([np.full(4, 2.0)] * 120, [{}])


@pytest.fixture
def deviation_with(hand_made, make_record, tmp_path):
    """A function that returns how far two workers with these losses are from `hand_made`, which gets these kinks."""
    task, expected = hand_made

    def compared(losses, kinks=(), shard_losses=None, **facts):
        shard_losses = [losses, losses] if shard_losses is None else shard_losses
        known = {"shards": 2, "examples_by_rank": [3840, 3840]} | facts
        record = make_record(losses=losses, shard_losses=shard_losses, **known)
        return deviation(record, task, tmp_path, dataclasses.replace(expected, kinks=list(kinks)))

    return compared


@pytest.mark.parametrize("position", [0, 99, 100, 119])
def test_every_recorded_loss_counts(deviation_with, position):
    losses = [2.0] * 120
    losses[position] = 3.0
    found = deviation_with(losses)
    assert (found.loss, found.left_at) == (0.5, position)
    assert not found.follows
    assert deviation_with([2.0] * 120).left_at is None


def test_losses_that_deviate_by_exactly_the_tolerance_follow(hand_made, make_record, tmp_path):
    task, expected = hand_made
    losses = [LOSS_TOLERANCE * LOSS_FLOOR] * 120
    record = make_record(losses=losses, shard_losses=[losses], examples_by_rank=[7680])
    found = deviation(record, task, tmp_path, dataclasses.replace(expected, row_losses=[np.zeros(4)] * 120))
    assert (found.loss, found.shard, found.left_at) == (LOSS_TOLERANCE, LOSS_TOLERANCE, None)
    assert found.follows


@pytest.mark.parametrize("losses", [[], [2.0], [2.0] * 119, [2.0] * 121], ids=len)
def test_a_launch_without_a_loss_for_every_step_does_not_follow(deviation_with, losses):
    for facts in ({}, {"shard_losses": [[2.0] * 120] * 2}):
        found = deviation_with(losses, **facts)
        assert (found.loss, found.left_at) == (INFINITE, 0)
        assert not found.follows


@pytest.mark.parametrize("losses", [[], [2.0], [2.0] * 119, [2.0] * 121], ids=len)
def test_a_launch_without_a_loss_for_every_step_of_a_shard_does_not_follow(deviation_with, losses):
    found = deviation_with([2.0] * 120, shard_losses=[[2.0] * 120, losses])
    assert (found.loss, found.shard, found.left_at) == (0.0, INFINITE, 0)
    assert not found.follows


@pytest.mark.parametrize(
    ("shards", "shard_losses", "deviation_of_a_shard"),
    [
        (2, [[1.0] * 120, [3.0] * 120], 0.0),
        (2, [[3.0] * 120, [1.0] * 120], 2.0),
        (2, [[1.0] * 120, [3.0] * 50 + [4.5] * 70], 0.5),
        (2, [[1.0] * 120, [3.0] * 100 + [4.5] * 20], 0.5),
        (2, [[2.0] * 120], INFINITE),
        (1, [[2.0] * 120], 0.0),
        (1, [[2.0] * 120, [2.0] * 120], 0.0),
        (1, [[2.0] * 120, [1.0] * 120], 0.5),
        (1, [], INFINITE),
        (2, [], INFINITE),
        (3, [[2.0] * 120] * 3, INFINITE),
        (3, [], INFINITE),
    ],
    ids=[
        *("alike", "swapped", "one apart", "late", "one of two", "undivided", "twice", "of parts", "none", "unknown"),
        *("indivisible", "neither divisible nor known"),
    ],
)
def test_every_shards_losses_count(hand_made, make_record, tmp_path, shards, shard_losses, deviation_of_a_shard):
    task, expected = hand_made
    expected = dataclasses.replace(expected, row_losses=[np.array([0.5, 1.5, 3.0, 3.0])] * 120)
    known = {"losses": [2.0] * 120, "examples_by_rank": [3840, 3840], "shards": shards}
    found = deviation(make_record(**known, shard_losses=shard_losses), task, tmp_path, expected)
    assert found.shard == deviation_of_a_shard
    assert found.follows is not bool(deviation_of_a_shard)


@pytest.mark.parametrize("position", [1, 119])
def test_a_loss_that_is_not_finite_does_not_follow(deviation_with, position):
    losses = [2.0] * 120
    losses[position] = None
    found = deviation_with(losses, kinks=[Kink(0.0, 0, 0, 0)])
    assert found.loss == float("inf")
    assert not found.follows
    assert not found.follows_up_to_the_kink


def test_the_examples_of_all_processes_are_counted(deviation_with):
    for examples, follows in (([3840, 3840], True), ([7680], True), ([7680, 7680], False), ([3840, 3839], False)):
        found = deviation_with([2.0] * 120, examples_by_rank=examples, kinks=[Kink(0.0, 0, 0, 0)])
        assert found.follows is follows
        assert found.follows_up_to_the_kink is follows
        assert found.weights is None


def test_a_resumed_launch_is_compared_from_its_first_step_on(make_record, tmp_path):
    task = Task(steps=40, warmup_steps=10)
    expected = Trajectory([np.full(4, step + 1.0) for step in range(40)], [{}])
    losses = [float(step + 1) for step in range(30, 40)]
    record = make_record(losses=losses, shard_losses=[losses] * 2, shards=2, first_step=30, examples_by_rank=[320, 320])
    assert deviation(record, task, tmp_path, expected).follows
    for first_step in (29, 31, 40, 41):
        assert not deviation(changed(record, first_step=first_step), task, tmp_path, expected).follows


def test_the_first_kink_near_zero_is_reported_and_a_far_one_is_not(deviation_with):
    far = Kink(2 * KINK_DISTANCE, step=12, layer=1, unit=3)
    later = dataclasses.replace(NEAR, step=60, distance=0.0)
    assert deviation_with([2.0] * 120, kinks=[far, NEAR, later]).kink == NEAR
    assert deviation_with([2.0] * 120, kinks=[far]).kink is None
    assert deviation_with([2.0] * 120).kink is None


def left_at(step: int, deviation: float) -> list[float]:
    return [2.0] * step + [2.0 * (1 + deviation)] * (120 - step)


@pytest.mark.parametrize(
    ("step", "off", "is_explained"),
    [
        (51, 0.9 * LOSS_BOUND, True),
        (119, 2 * LOSS_TOLERANCE, True),
        (50, 2 * LOSS_TOLERANCE, False),
        (0, 2 * LOSS_TOLERANCE, False),
        (51, 1.1 * LOSS_BOUND, False),
        (119, 1.1 * LOSS_BOUND, False),
    ],
)
def test_a_kink_explains_what_leaves_the_oracle_after_it_within_the_bound(deviation_with, step, off, is_explained):
    for facts in ({}, {"shard_losses": [[2.0] * 120, left_at(step, off)]}):
        losses = [2.0] * 120 if facts else left_at(step, off)
        found = deviation_with(losses, kinks=[NEAR], **facts)
        assert not found.follows
        assert found.follows_up_to_the_kink is is_explained
        assert not deviation_with(losses, **facts).follows_up_to_the_kink


@pytest.mark.parametrize(("factor", "is_explained"), [(1 + WEIGHT_BOUND / 2, True), (1 + 2 * WEIGHT_BOUND, False)])
def test_a_kink_explains_weights_within_their_bound(checked, trajectory, factor, is_explained):
    def at_the_end(state, rank, step):
        if step == 99:
            state |= {name: value * np.float32(factor) for name, value in state.items()}

    found = checked(spoil=at_the_end, expected=dataclasses.replace(trajectory, kinks=[NEAR]))
    assert not found.follows
    assert found.follows_up_to_the_kink is is_explained


def test_an_oracle_that_is_too_short_is_a_mistake(hand_made, make_record, tmp_path):
    task, expected = hand_made
    record = make_record(losses=[2.0] * 120, examples_by_rank=[3840, 3840])
    with pytest.raises(ValueError, match="has 119 steps"):
        deviation(record, task, tmp_path, dataclasses.replace(expected, row_losses=expected.row_losses[:119]))


@pytest.mark.parametrize("content", [None, b"", b"damaged"])
def test_final_weights_that_cannot_be_read_are_named_with_the_remedy(
    hand_made, make_record, tmp_path, refusal, content
):
    task, expected = hand_made
    path = tmp_path / "state.safetensors"
    if content is not None:
        path.write_bytes(content)
    record = make_record(losses=[2.0] * 120, checkpoint=path.name)
    text = refusal(lambda: deviation(record, task, tmp_path, expected))
    assert str(path) in text
    assert "delete its record" in text


def test_final_weights_are_found_from_the_records_folder(numpy_launch, tmp_path, monkeypatch, trajectory):
    monkeypatch.chdir(tmp_path)
    task = dataclasses.replace(TASK, record=Path("out/record.json"), checkpoint=Path("out/state.safetensors"))
    record = numpy_launch(task).record
    monkeypatch.chdir("/")
    assert deviation(record, task, tmp_path / "out", trajectory).follows


def test_the_certificates_task_makes_relu_launches_follow(checked):
    task = certificate_task(BASE, [64])
    assert task.activation == "relu"
    assert checked(4, task=task, expected=run_oracle(task, 64, 100)).follows
