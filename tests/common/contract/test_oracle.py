"""common/contract/oracle.py: the float64 run, its kinks, and how far losses and weights are from it."""

import dataclasses

import numpy as np
import pytest

from common.contract import dataset, mlp, oracle
from common.contract.mlp import KINK_DISTANCE, Kink, Trajectory
from common.contract.oracle import (
    LOSS_BOUND,
    LOSS_FLOOR,
    LOSS_TOLERANCE,
    certificate_task,
    loss_deviations,
    run_alone,
    run_oracle,
    weight_deviation,
)
from common.contract.rows import Piece
from common.contract.task import Task
from common.contract.work import Alone

BASE = Task(steps=100, warmup_steps=10, window_steps=30)

# Seed 0 with tanh has no kinks to excuse a deviation with.
TASK = dataclasses.replace(BASE, activation="tanh")


# The seed that the contract tests use for digits.
KINKLESS = dataclasses.replace(BASE, seed=3)

NOT_A_NUMBER, INFINITE = float("nan"), float("inf")


def test_without_exchange_the_kink_of_any_worker_counts():
    task = dataclasses.replace(KINKLESS, steps=20)
    alone = run_alone(task, 64, 20, 2, Alone.OWN_SHARD)
    together = run_oracle(task, 64, 20)
    assert [kink.step for kink in alone.kinks] == [*range(20)]
    assert alone.kinks[0] == together.kinks[0]
    assert run_alone(TASK, 64, 5, 2, Alone.OWN_SHARD).kinks == []


def test_one_model_takes_the_first_shards_part():
    one_model, of_parts = (run_alone(TASK, 64, 100, 2, alone) for alone in (Alone.FIRST_PART, Alone.OWN_PART))
    [state], [first, _] = one_model.states, of_parts.states
    losses, losses_of_parts = one_model.shard_losses(2), of_parts.shard_losses(2)
    assert np.array_equal(losses[0], losses_of_parts[0])
    assert not np.isclose(losses[1], losses_of_parts[1]).any(where=np.arange(100) > 0)
    assert all(np.array_equal(state[name], first[name]) for name in first)


def test_the_largest_parameter_goes_to_whoever_has_the_least_so_far():
    task = dataclasses.replace(TASK, dimensions=(64, 128, 64, 10))
    assert oracle.owners_of(task, 2) == {
        **{"layer0.weight": 0, "layer1.weight": 1, "layer2.weight": 0, "layer0.bias": 1},
        **{"layer1.bias": 1, "layer2.bias": 1},
    }


def test_digits_in_float32_leaves_the_oracle_after_a_kink_and_never_before():
    """Global batch 128 with seed 0, as two workers under weak scaling train: the oracle meets a kink at step 40."""
    task = dataclasses.replace(BASE, steps=300)
    exact, rounded = run_oracle(task, 128, 300), run_oracle(task, 128, 300, np.float32)
    kink = next(kink for kink in exact.kinks if kink.is_near)
    deviations = loss_deviations(rounded.losses, exact.losses)
    assert max(deviations[: kink.step + 1]) < LOSS_TOLERANCE < max(deviations) < LOSS_BOUND


def test_the_deviation_of_a_loss_is_relative_to_the_oracles_and_to_a_floor_below_that():
    deviations = loss_deviations([2.0, 1.1, 0.5, LOSS_FLOOR / 2], [2.0, 1.0, 0.5, LOSS_FLOOR / 4])
    assert deviations == pytest.approx([0.0, 0.1, 0.0, 0.25])
    assert loss_deviations([1.8], [2.0]) == pytest.approx([0.1])
    assert loss_deviations([0.0, 1e-7], [0.0, 0.0]) == pytest.approx([0.0, 1e-7 / LOSS_FLOOR])


def test_the_floor_is_never_tighter_than_the_contract():
    for expected in (1e-3, 0.05, LOSS_FLOOR, 3.0):
        [deviation_of_one] = loss_deviations([expected * (1 + 0.99 * LOSS_TOLERANCE)], [expected])
        assert deviation_of_one <= LOSS_TOLERANCE


@pytest.mark.parametrize(("losses", "expected"), [([1.0, 9.0], [1.0]), ([1.0], [1.0, 9.0]), ([], [1.0]), ([], [])])
def test_another_number_of_losses_than_the_oracles_is_an_infinite_deviation(losses, expected):
    assert loss_deviations(losses, expected).tolist() == [INFINITE] * max(1, len(expected))


@pytest.mark.parametrize("position", [0, 1, 2])
@pytest.mark.parametrize("loss", [None, NOT_A_NUMBER, INFINITE, -INFINITE])
def test_a_loss_that_is_not_finite_deviates_infinitely_wherever_it_stands(loss, position):
    losses = [1.0, 1.0, 1.0]
    losses[position] = loss
    assert loss_deviations(losses, [1.0, 1.0, 1.0])[position] == INFINITE


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("loss", [NOT_A_NUMBER, INFINITE])
def test_an_oracle_that_is_not_finite_is_followed_by_nothing(loss, position):
    expected = [1.0, 1.0]
    expected[position] = loss
    assert loss_deviations([loss, loss], expected)[position] == INFINITE


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


def test_the_oracle_goes_on_with_batches_of_another_size_from_the_row_that_is_next():
    data = dataset.load(TASK)
    order = np.random.default_rng([TASK.seed, 1, 0]).permutation(len(data.train_labels))
    cuts = [slice(0, 128), slice(128, 256), slice(256, 320)]
    by_hand = mlp.train(TASK, [(data.train_features[order[cut]], data.train_labels[order[cut]]) for cut in cuts])
    trained = run_oracle(TASK, 64, 3, earlier_pieces=[Piece(2, 128)])
    assert np.isnan(trained.losses[:2]).all()
    assert trained.losses[2] == by_hand.row_losses[2].mean()
    assert all(np.array_equal(trained.state[name], value) for name, value in by_hand.state.items())


def test_in_float32_everything_is_computed_in_float32():
    exact, rounded = run_oracle(TASK, 64, 3), run_oracle(TASK, 64, 3, np.float32)
    assert 0 < max(loss_deviations(rounded.losses, exact.losses)) < LOSS_TOLERANCE
    assert {value.dtype.name for value in rounded.state.values()} == {"float32"}
    alone = run_alone(TASK, 64, 3, 2, Alone.OWN_PART, np.float32)
    assert {value.dtype.name for state in alone.states for value in state.values()} == {"float32"}


def test_the_certificate_takes_the_first_seed_without_a_kink_at_any_global_batch(monkeypatch):
    nearest = {(5, 64): 1e-7, (5, 128): 1.0, (6, 64): 1.0, (6, 128): 1e-6, (7, 64): 2e-6, (7, 128): 1.0}

    def known(task, global_batch, steps):
        assert steps == 100
        return Trajectory([], [], [Kink(nearest[task.seed, global_batch], 0, 0, 0)])

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
        return Trajectory([], [], [Kink(0.0, 0, 0, 0)])

    monkeypatch.setattr(oracle, "run_oracle", with_a_kink)
    with pytest.raises(RuntimeError, match="Every seed from 0 on"):
        certificate_task(BASE, [64])
    assert tried == [*range(100)]
