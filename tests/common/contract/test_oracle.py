"""common/contract/oracle.py: the float64 run, and how far a loss is from it."""

import math

import numpy as np
import pytest

from common.contract import dataset, model, oracle
from common.contract.oracle import LOSS_FLOOR, LOSS_TOLERANCE, loss_deviation, run_oracle
from common.contract.rows import Piece
from common.contract.task import Task

TASK = Task(activation="tanh")


@pytest.mark.parametrize("rows_at_once", [100, 2048])
def test_the_training_loss_is_the_mean_over_all_training_rows_however_many_come_at_once(monkeypatch, rows_at_once):
    monkeypatch.setattr(oracle, "_ROWS_AT_ONCE", rows_at_once)
    weights, rows = model.initial_weights(TASK), dataset.load(TASK)
    exact = {name: value.astype(np.float64) for name, value in weights.items()}
    expected = model.loss_and_gradients(TASK, exact, rows.train_features.astype(np.float64), rows.train_labels)
    assert oracle.training_loss(TASK, weights) == pytest.approx(expected.loss, rel=1e-12)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_the_training_loss_of_weights_that_are_not_finite_is_not_finite(bad):
    weights = {name: np.full_like(value, bad) for name, value in model.initial_weights(TASK).items()}
    assert not np.isfinite(oracle.training_loss(TASK, weights))


def test_a_loss_deviates_relative_to_the_oracles_or_to_a_floor_below_that():
    assert loss_deviation(1.1, 1.0) == pytest.approx(0.1)
    assert loss_deviation(LOSS_FLOOR / 2, LOSS_FLOOR / 4) == pytest.approx(0.25)
    assert loss_deviation(1.0 + 0.9 * LOSS_TOLERANCE, 1.0) < LOSS_TOLERANCE
    assert loss_deviation(None, 1.0) == loss_deviation(math.nan, 1.0) == math.inf


def test_the_oracle_trains_the_global_batches_in_float64_or_all_in_float32():
    found = run_oracle(TASK, 96, 20)
    assert len(found.losses) == 20
    assert {value.dtype for value in found.state.values()} == {np.dtype(np.float64)}
    assert found.losses[0] == pytest.approx(2.48015882849989, rel=1e-9)
    exact, rounded = run_oracle(TASK, 64, 3), run_oracle(TASK, 64, 3, np.float32)
    assert 0 < np.abs(np.array(rounded.losses) - exact.losses).max() < 1e-6
    assert {value.dtype.name for value in rounded.state.values()} == {"float32"}


def test_the_oracle_goes_on_with_batches_of_another_size_from_the_row_that_is_next():
    data = dataset.load(TASK)
    order = np.random.default_rng([TASK.seed, 1, 0]).permutation(len(data.train_labels))
    cuts = [slice(0, 128), slice(128, 256), slice(256, 320)]
    by_hand = model.train(TASK, [(data.train_features[order[cut]], data.train_labels[order[cut]]) for cut in cuts])
    trained = run_oracle(TASK, 64, 3, earlier_pieces=[Piece(2, 128)])
    assert np.isnan(trained.losses[:2]).all()
    assert trained.losses[2] == by_hand.row_losses[2].mean()
    assert all(np.array_equal(trained.state[name], value) for name, value in by_hand.state.items())
