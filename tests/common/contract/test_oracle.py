"""common/contract/oracle.py: launches that do the contract's maths follow the oracle, others are caught."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from common.contract import dataset, mlp, oracle
from common.contract.mlp import KINK_DISTANCE, Kink, Trajectory
from common.contract.oracle import (
    LOSS_TOLERANCE,
    WEIGHT_TOLERANCE,
    certificate_task,
    deviation,
    deviation_alone,
    loss_deviation,
    run_alone,
    run_oracle,
    weight_deviation,
)
from common.contract.rows import RowOrder
from common.contract.task import Task
from common.strategy import Alone

BASE = Task(steps=100, warmup_steps=10, window_steps=30)
# Seed 0 with tanh has no kinks to excuse a deviation with.
TASK = dataclasses.replace(BASE, activation="tanh")
SCHEDULED = dataclasses.replace(
    TASK, momentum=0.9, weight_decay=1e-3, learning_rate=0.02, final_learning_rate=0.01, decay_steps=50
)
# The seed that the contract tests use for digits.
KINKLESS = dataclasses.replace(BASE, seed=3)

NOT_A_NUMBER, INFINITE = float("nan"), float("inf")


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


# Without exchange


@pytest.fixture
def alone(numpy_launch, declare, tmp_path):
    """A function that launches TASK with two workers that exchange nothing, and returns the deviation from an oracle.

    The oracle is that of workers which do what `kind` says; the workers are spoiled as they are told.
    """

    def launched_and_compared(kind=Alone.OWN_SHARD, task=TASK, **spoiled):
        task = dataclasses.replace(task, checkpoint=tmp_path / f"{kind.name}.safetensors")
        launched = numpy_launch(task, 2, options=declare().options(exchange=False), **spoiled)
        return deviation_alone(launched.record, task, tmp_path, *run_alone(task, 64, task.steps, 2, kind))

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
    found = deviation_alone(record, Task(steps=2, warmup_steps=1), tmp_path, np.array([[1.0] * 2, [3.0] * 2]), [])
    assert (found.loss, found.shard, found.weights) == (0.0, INFINITE, INFINITE)


def test_workers_that_take_their_part_of_the_mean_follow_models_of_their_own(alone):
    def part(gradients, rank):
        return {name: value / np.float32(2) for name, value in gradients.items()}

    assert alone(Alone.OWN_PART, mend=part).follows
    assert not alone(Alone.OWN_SHARD, mend=part).follows


def test_one_model_takes_the_first_shards_part():
    losses, [state] = run_alone(TASK, 64, 100, 2, Alone.FIRST_PART)
    of_parts, [first, _] = run_alone(TASK, 64, 100, 2, Alone.OWN_PART)
    assert np.array_equal(losses[0], of_parts[0])
    assert not np.isclose(losses[1], of_parts[1]).any(where=np.arange(100) > 0)
    assert all(np.array_equal(state[name], first[name]) for name in first)


def test_workers_that_own_parameters_train_those_alone(alone):
    owners = oracle.owners_of(TASK, 2)
    assert {*owners} == {*mlp.parameter_names(TASK)}

    def own(gradients, rank):
        return {name: value * (owners[name] == rank) for name, value in gradients.items()}

    assert alone(Alone.OWN_PARAMETERS, mend=own).follows
    assert not alone(Alone.OWN_SHARD, mend=own).follows


def test_the_largest_parameter_goes_to_whoever_has_the_least_so_far():
    task = dataclasses.replace(TASK, dimensions=(64, 128, 64, 10))
    assert oracle.owners_of(task, 2) == {
        **{"layer0.weight": 0, "layer1.weight": 1, "layer2.weight": 0, "layer0.bias": 1},
        **{"layer1.bias": 1, "layer2.bias": 1},
    }


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
    found = deviation_alone(record, task, tmp_path, *run_alone(task, 64, 100, 2, Alone.OWN_SHARD))
    assert found.loss > LOSS_TOLERANCE
    assert found.weights == INFINITE


# What a deviation is made of


@pytest.fixture
def hand_made():
    """A task without checkpoint, and an oracle of 120 losses for it."""
    task = Task(steps=120, warmup_steps=10)
    return task, Trajectory([2.0] * 120, {}, None)


def test_only_the_first_hundred_losses_count(hand_made, make_record, tmp_path):
    task, expected = hand_made
    for position, counts in ((99, True), (100, False)):
        losses = [2.0] * 120
        losses[position] = 3.0
        record = make_record(losses=losses, examples_by_rank=[3840, 3840])
        found = deviation(record, task, tmp_path, expected)
        assert found.loss == (0.5 if counts else 0.0)
        assert found.follows is not counts


@pytest.mark.parametrize(
    ("shards", "shard_losses", "deviation_of_a_shard"),
    [
        (2, [[1.0] * 120, [3.0] * 120], 0.0),
        (2, [[3.0] * 120, [1.0] * 120], 2.0),
        (2, [[1.0] * 120, [3.0] * 50 + [4.5] * 70], 0.5),
        (2, [[1.0] * 120, [3.0] * 100 + [4.5] * 20], 0.0),
        (2, [[2.0] * 120], INFINITE),
        (1, [[2.0] * 120], 0.0),
        (1, [[2.0] * 120, [1.0] * 120], 0.5),
        (2, [], None),
    ],
    ids=["alike", "swapped", "one apart", "late", "one of two", "undivided", "of parts", "unknown"],
)
def test_every_shards_losses_count_for_the_first_hundred_steps(
    hand_made, make_record, tmp_path, shards, shard_losses, deviation_of_a_shard
):
    task, expected = hand_made
    expected = dataclasses.replace(expected, row_losses=[np.array([0.5, 1.5, 3.0, 3.0])] * 120)
    known = {"losses": [2.0] * 120, "examples_by_rank": [3840, 3840], "shards": shards}
    found = deviation(make_record(**known, shard_losses=shard_losses), task, tmp_path, expected)
    assert found.shard == deviation_of_a_shard
    assert found.follows is not bool(deviation_of_a_shard)


@pytest.mark.parametrize("loss", [None, float("nan")])
def test_a_loss_that_is_not_finite_does_not_follow(hand_made, make_record, tmp_path, loss):
    task, expected = hand_made
    record = make_record(losses=[2.0, loss, *[2.0] * 118], examples_by_rank=[3840, 3840])
    found = deviation(record, task, tmp_path, expected)
    assert found.loss == float("inf")
    assert not found.follows


def test_the_examples_of_all_processes_are_counted(hand_made, make_record, tmp_path):
    task, expected = hand_made
    for examples, follows in (([3840, 3840], True), ([7680], True), ([7680, 7680], False), ([3840, 3839], False)):
        found = deviation(make_record(losses=[2.0] * 120, examples_by_rank=examples), task, tmp_path, expected)
        assert found.follows is follows
        assert found.weights is None


def test_a_resumed_launch_is_compared_from_its_first_step_on(make_record, tmp_path):
    task = Task(steps=40, warmup_steps=10)
    expected = Trajectory([float(step + 1) for step in range(40)], {}, None)
    losses = [float(step + 1) for step in range(30, 40)]
    record = make_record(losses=losses, first_step=30, examples_by_rank=[320, 320])
    assert deviation(record, task, tmp_path, expected).follows
    assert not deviation(dataclasses.replace(record, first_step=29), task, tmp_path, expected).follows


@pytest.mark.parametrize(("position", "deviates"), [(0, True), (1, False)])
def test_of_a_launch_resumed_after_the_hundredth_step_the_first_loss_counts(
    hand_made, make_record, tmp_path, position, deviates
):
    task, expected = hand_made
    losses = [2.0] * 10
    losses[position] = 3.0
    record = make_record(losses=losses, first_step=110, examples_by_rank=[640])
    assert deviation(record, task, tmp_path, expected).loss == 0.5 * deviates


def test_a_kink_near_zero_is_reported_with_its_place_and_a_far_one_is_not(hand_made, make_record, tmp_path):
    task, expected = hand_made
    record = make_record(losses=[2.0] * 120, examples_by_rank=[3840, 3840])
    near, far = Kink(KINK_DISTANCE, step=12, layer=1, unit=3), Kink(2e-6, step=12, layer=1, unit=3)
    assert deviation(record, task, tmp_path, dataclasses.replace(expected, kink=near)).kink == near
    assert deviation(record, task, tmp_path, dataclasses.replace(expected, kink=far)).kink is None
    assert deviation(record, task, tmp_path, expected).kink is None


def test_an_oracle_that_is_too_short_is_a_mistake(hand_made, make_record, tmp_path):
    task, expected = hand_made
    record = make_record(losses=[2.0] * 120, examples_by_rank=[3840, 3840])
    for steps, checkpoint in ((99, None), (119, "state.safetensors")):
        short = dataclasses.replace(expected, losses=[2.0] * steps)
        with pytest.raises(ValueError, match=f"has {steps} steps"):
            deviation(dataclasses.replace(record, checkpoint=checkpoint), task, tmp_path, short)
    deviation(record, task, tmp_path, dataclasses.replace(expected, losses=[2.0] * 100))


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


def test_the_loss_deviation_is_the_largest_relative_one():
    assert loss_deviation([2.0, 1.1, 0.5], [2.0, 1.0, 0.5]) == pytest.approx(0.1)
    assert loss_deviation([1.8], [2.0]) == pytest.approx(0.1)
    assert loss_deviation([1.0, 9.0], [1.0]) == 0.0
    assert loss_deviation([1.0], [1.0, 9.0]) == 0.0


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("loss", [None, NOT_A_NUMBER, INFINITE, -INFINITE])
def test_a_loss_that_is_not_finite_deviates_infinitely_wherever_it_stands(loss, position):
    losses = [1.0, 1.0, 1.0]
    losses[position] = loss
    assert loss_deviation(losses, [1.0, 1.0, 1.0]) == INFINITE


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("loss", [NOT_A_NUMBER, INFINITE])
def test_an_oracle_that_is_not_finite_is_followed_by_nothing(loss, position):
    expected = [1.0, 1.0]
    expected[position] = loss
    assert loss_deviation([1.0, 1.0], expected) == INFINITE


def test_a_loss_of_exactly_zero_is_followed_only_by_zero():
    assert loss_deviation([1.0, 0.0], [1.0, 0.0]) == 0.0
    assert loss_deviation([1.0, 0.5], [1.0, 0.0]) == INFINITE


def test_no_losses_cannot_be_compared():
    for losses, expected in (([], [1.0]), ([1.0], []), ([], [])):
        with pytest.raises(ValueError, match="no losses"):
            loss_deviation(losses, expected)


def test_the_weight_deviation_is_norm_of_difference_over_norm_of_all_weights_together():
    expected = {"a": np.array([[3.0, 0.0]]), "b": np.array([4.0])}
    ours = {"a": np.array([[3.0, 0.3]], np.float32), "b": np.array([4.4], np.float32)}
    assert weight_deviation(expected, expected) == 0.0
    assert weight_deviation(ours, expected) == pytest.approx(0.1, rel=1e-6)


@pytest.mark.parametrize("bad", [NOT_A_NUMBER, INFINITE])
def test_weights_that_are_not_finite_deviate_infinitely(bad):
    assert weight_deviation({"a": np.array([1.0, bad])}, {"a": np.array([1.0, 1.0])}) == INFINITE


def test_weights_of_other_names_cannot_be_compared():
    with pytest.raises(ValueError, match="layer1"):
        weight_deviation({"layer0.weight": np.ones(1)}, {"layer1.weight": np.ones(1)})


# The oracle itself


@pytest.mark.parametrize("rows_at_once", [100, 2048])
def test_the_training_loss_is_the_mean_over_all_training_rows_however_many_come_at_once(monkeypatch, rows_at_once):
    monkeypatch.setattr(oracle, "_ROWS_AT_ONCE", rows_at_once)
    task = Task()
    weights = mlp.initial_weights(task)
    rows = dataset.load(task)
    exact = {name: value.astype(np.float64) for name, value in weights.items()}
    expected, _, _ = mlp.loss_and_gradients(task, exact, rows.train_features.astype(np.float64), rows.train_labels)
    assert oracle.training_loss(task, weights) == pytest.approx(expected, rel=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("bad", [NOT_A_NUMBER, INFINITE])
def test_the_training_loss_of_weights_that_are_not_finite_is_not_finite(bad):
    task = Task()
    weights = {name: np.full_like(value, bad) for name, value in mlp.initial_weights(task).items()}
    assert not np.isfinite(oracle.training_loss(task, weights))


def test_the_oracle_trains_the_global_batches_in_float64():
    found = run_oracle(TASK, 96, 20)
    assert len(found.losses) == 20
    assert {value.dtype for value in found.state.values()} == {np.dtype(np.float64)}
    assert found.losses[0] == pytest.approx(2.48015882849989, rel=1e-9)


def test_in_float32_everything_is_computed_in_float32():
    exact, rounded = run_oracle(TASK, 64, 3), run_oracle(TASK, 64, 3, np.float32)
    assert 0 < loss_deviation(rounded.losses, exact.losses) < LOSS_TOLERANCE
    assert {value.dtype.name for value in rounded.state.values()} == {"float32"}
    _, states = run_alone(TASK, 64, 3, 2, Alone.OWN_PART, np.float32)
    assert {value.dtype.name for state in states for value in state.values()} == {"float32"}


def test_the_certificate_takes_the_first_seed_without_a_kink_at_any_global_batch(monkeypatch):
    nearest = {(5, 64): 1e-7, (5, 128): 1.0, (6, 64): 1.0, (6, 128): 1e-6, (7, 64): 2e-6, (7, 128): 1.0}

    def known(task, global_batch, steps):
        assert steps == 100
        return Trajectory([], {}, Kink(nearest[task.seed, global_batch], 0, 0, 0))

    monkeypatch.setattr(oracle, "run_oracle", known)
    found = certificate_task(dataclasses.replace(BASE, seed=5), [64, 128])
    assert found == dataclasses.replace(BASE, seed=7)


@pytest.mark.parametrize(
    "task",
    [
        KINKLESS,
        dataclasses.replace(KINKLESS, momentum=0.5, weight_decay=0.001, final_learning_rate=0.05),
        dataclasses.replace(BASE, seed=2, momentum=0.9, weight_decay=0.01),
    ],
    ids=["plain", "momentum and schedule", "momentum and weight decay"],
)
def test_the_contract_tests_of_digits_meet_no_kink_that_could_excuse_a_deviation(task):
    found = run_oracle(task, 64, 100)
    assert KINK_DISTANCE < found.kink.distance < 1e-3
    assert certificate_task(task, [64]) == task


def test_a_task_without_a_relu_is_its_own_certificate():
    task = dataclasses.replace(TASK, steps=12)
    assert certificate_task(task, [64]) == task


def test_a_certificate_for_which_no_seed_will_do_is_a_failure(monkeypatch):
    tried = []

    def with_a_kink(task, global_batch, steps):
        tried.append(task.seed)
        return Trajectory([], {}, Kink(0.0, 0, 0, 0))

    monkeypatch.setattr(oracle, "run_oracle", with_a_kink)
    with pytest.raises(RuntimeError, match="Every seed from 0 on"):
        certificate_task(BASE, [64])
    assert tried == [*range(100)]


def test_the_certificates_task_makes_relu_launches_follow(checked):
    task = certificate_task(BASE, [64])
    assert task.activation == "relu"
    assert checked(4, task=task, expected=run_oracle(task, 64, 100)).follows
