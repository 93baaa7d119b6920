"""common/contract/model.py: the contract itself, against values worked out by hand, and pinned sums."""

import dataclasses
import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.contract import model
from common.contract.task import PRESETS, Task

DIGITS = PRESETS["digits"]
# One weight, started by hand: SGD can be followed with a pencil.
ONE_WEIGHT = Task(dimensions=(1, 1), bias=False, learning_rate=0.1)


def float64_weights(task):
    return {name: value.astype(np.float64) for name, value in model.initial_weights(task).items()}


def updated(task, gradients, weight=1.0):
    """The weight after each of the updates that the gradients ask for."""
    state = {"layer0.weight": np.array([[weight]])}
    values = []
    for step, gradient in enumerate(gradients):
        model.update(task, state, {"layer0.weight": np.array([[gradient]])}, step)
        values.append(state["layer0.weight"].item())
    return values


def test_losses_and_gradients_of_cases_worked_out_by_hand():
    task = Task(dimensions=(2, 2), bias=False)
    weights = {"layer0.weight": np.array([[np.log(3), 0.0], [0.0, 0.0]])}
    features, labels = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0, 1])
    computed = model.loss_and_gradients(task, weights, features, labels)
    # The rows' probabilities are (3/4, 1/4) and (1/2, 1/2).
    assert computed.loss == pytest.approx((np.log(4 / 3) + np.log(2)) / 2)
    assert computed.row_losses == pytest.approx(np.log([4 / 3, 2]))
    assert computed.gradients["layer0.weight"] == pytest.approx(np.array([[-1 / 4, 1 / 4], [1 / 2, -1 / 2]]) / 2)
    assert model.forward(task, weights, features) == pytest.approx(np.array([[np.log(3), 0.0], [0.0, 0.0]]))
    task = Task(dimensions=(1, 2), bias=False)
    weights = {"layer0.weight": np.array([[1e4, -1e4]])}
    computed = model.loss_and_gradients(task, weights, np.array([[1.0], [0.0]]), np.array([1, 1]))
    assert computed.loss == pytest.approx((2e4 + np.log(2)) / 2)
    assert np.isfinite(computed.gradients["layer0.weight"]).all()
    task = Task(dimensions=(1, 1, 2), bias=False)
    weights = {"layer0.weight": np.array([[0.0]]), "layer1.weight": np.array([[1.0, -1.0]])}
    computed = model.loss_and_gradients(task, weights, np.array([[1.0]]), np.array([0]))
    assert computed.gradients["layer0.weight"].item() == 0


@given(st.integers(0, 2**32), st.sampled_from([1, 2, 3, 4, 6, 12]))
def test_the_mean_of_the_shards_gradients_is_the_gradient_of_the_global_batch(seed, workers):
    task = Task(dimensions=(4, 5, 3), activation="tanh")
    weights = float64_weights(task)
    generator = np.random.default_rng(seed)
    features, labels = generator.standard_normal((12, 4)), generator.integers(0, 3, 12)
    whole = model.loss_and_gradients(task, weights, features, labels)
    shards = zip(np.split(features, workers), np.split(labels, workers), strict=True)
    parts = [model.loss_and_gradients(task, weights, *shard) for shard in shards]
    assert np.mean([part.loss for part in parts]) == pytest.approx(whole.loss, rel=1e-12)
    for name, gradient in whole.gradients.items():
        assert np.mean([part.gradients[name] for part in parts], axis=0) == pytest.approx(gradient, rel=1e-9, abs=1e-14)


def test_sgd_with_momentum_weight_decay_and_a_schedule_is_that_of_torch():
    task = dataclasses.replace(ONE_WEIGHT, momentum=0.9)
    # m: 0.5, then 0.9 * 0.5 + 0.25 = 0.7, then 0.9 * 0.7 + 0 = 0.63.
    assert updated(task, [0.5, 0.25, 0.0]) == pytest.approx([0.95, 0.88, 0.817])
    task = dataclasses.replace(ONE_WEIGHT, momentum=0.9, weight_decay=0.1)
    # g: 0.5 + 0.1 * 1 = 0.6, w = 0.94; g: 0.25 + 0.1 * 0.94 = 0.344, m: 0.9 * 0.6 + 0.344 = 0.884, w = 0.8516.
    assert updated(task, [0.5, 0.25]) == pytest.approx([0.94, 0.8516])
    task = dataclasses.replace(ONE_WEIGHT, momentum=0.5, final_learning_rate=0.0, decay_steps=2)
    # Rates 0.1, 0.05, 0; m: 1, 1.5, 1.75.
    assert updated(task, [1.0, 1.0, 1.0]) == pytest.approx([0.9, 0.825, 0.825])
    task = Task(dimensions=(1, 1), learning_rate=0.5, weight_decay=0.1)
    state = {"layer0.weight": np.array([[2.0]]), "layer0.bias": np.array([4.0])}
    model.update(task, state, {name: np.zeros_like(value) for name, value in state.items()}, 0)
    assert (state["layer0.weight"].item(), state["layer0.bias"].item()) == pytest.approx((1.9, 3.8))
    task = Task(learning_rate=0.1, final_learning_rate=0.02, decay_steps=4)
    rates = [model.learning_rate(task, step) for step in (0, 1, 2, 3, 4, 5, 1000)]
    assert rates == pytest.approx([0.1, 0.08, 0.06, 0.04, 0.02, 0.02, 0.02])
    assert {model.learning_rate(Task(learning_rate=0.1), step) for step in (0, 1, 999)} == {0.1}


def test_the_initial_weights_are_these_to_the_bit_and_depend_on_the_seed_alone():
    weights = model.initial_weights(DIGITS)
    content = b"".join(weights[name].tobytes() for name in model.parameter_names(DIGITS))
    assert hashlib.sha256(content).hexdigest() == "52592176667919839955e22a8df075f3c88a70a1cf83fab21c08ad3212967911"
    first = model.initial_weights(DIGITS)
    again = model.initial_weights(dataclasses.replace(DIGITS, batch=128, learning_rate=1.0, workers=4))
    other = model.initial_weights(dataclasses.replace(DIGITS, seed=1))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not any(np.array_equal(first[name], other[name]) for name in first)


def test_names_and_bytes_of_the_parameters_and_the_share_of_right_rows():
    task = Task(dimensions=(3, 4, 2))
    without = dataclasses.replace(task, bias=False)
    assert model.parameter_names(task) == ["layer0.weight", "layer0.bias", "layer1.weight", "layer1.bias"]
    assert model.parameter_names(without) == ["layer0.weight", "layer1.weight"]
    for each in (task, without, *PRESETS.values()):
        assert model.parameter_bytes(each) == sum(value.nbytes for value in model.initial_weights(each).values())
        assert list(model.initial_weights(each)) == model.parameter_names(each)
    task = Task(dimensions=(3, 3), bias=False)
    weights = {"layer0.weight": np.eye(3)}
    labels = np.array([0, 1, 2, 2])
    features = np.array([[9.0, 1, 0], [1, 9, 0], [9, 0, 1], [0, 1, 9]])
    assert model.accuracy(task, weights, features, labels) == 0.75
