"""common/contract/recipe.py: two snapshots of the weights say what each worker's rows counted in the step between."""

import dataclasses
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.contract import dataset, mlp, recipe
from common.contract.recipe import Gradient, Update
from common.contract.rows import RowOrder
from common.contract.task import PRESETS, Task

OPTIMIZER = {"momentum": 0.5, "weight_decay": 0.001, "learning_rate": 0.1}
TASK = dataclasses.replace(PRESETS["digits"], activation="tanh", **OPTIMIZER)
NAMES = mlp.parameter_names(TASK)


@cache
def shards(task, step, workers):
    """Each worker's features and labels in a step, in float64."""
    data = dataset.load(task)
    order = RowOrder(len(data.train_labels), task.seed).cut(step * task.batch, (step + 1) * task.batch)
    features = np.split(data.train_features[order].astype(np.float64), workers)
    return tuple(zip(features, np.split(data.train_labels[order], workers), strict=True))


def mean_of(gradients):
    return {name: sum(each[name] for each in gradients) / len(gradients) for name in gradients[0]}


def trained(workers, combine=mean_of, steps=3, task=TASK, taught=None, sgd=mlp.update, rows=shards):
    """The last of so many steps as float32 trains it, by workers that `combine` their gradients, and its recipe.

    `taught` is the task that they train, where it isn't the one that the recipe is read by; `rows` are those that they
    train on.
    """
    taught = taught or task
    state = {name: value.astype(np.float32) for name, value in mlp.initial_weights(task).items()}
    stale = None
    for step in range(steps):
        before = {name: state[name].copy() for name in mlp.parameter_names(task)}
        velocity = {name: state[f"{name}.momentum"].copy() for name in before if f"{name}.momentum" in state}
        parts = [(each.astype(np.float32), labels) for each, labels in rows(task, step, workers)]
        taken = [mlp.loss_and_gradients(taught, before, *part)[1] for part in parts]
        sgd(taught, state, combine(taken), step)
        gradients = [recipe.worker_gradient(task, before, *part) for part in shards(task, step, workers)]
        after, rate = {name: state[name] for name in before}, mlp.learning_rate(task, step)
        update = Update(before, after, rate, gradients, velocity or None, stale)
        stale = mean_of([each.mean for each in gradients])
    return recipe.read(update)


def summed(gradients):
    return {name: sum(each[name] for each in gradients) for name in gradients[0]}


def scaled(factor, combine=mean_of):
    return lambda gradients: {name: np.float32(factor) * value for name, value in combine(gradients).items()}


def only(names, combine=mean_of):
    """Combine these tensors, and leave the others to the first worker."""
    return lambda gradients: {name: (combine(gradients) if name in names else gradients[0])[name] for name in NAMES}


def of_last_step():
    held = [None]

    def combine(gradients):
        last, held[0] = held[0], mean_of(gradients)
        return last or held[0]

    return combine


def clipped(gradients):
    mean = mean_of(gradients)
    norm = np.sqrt(sum((value.astype(np.float64) ** 2).sum() for value in mean.values()))
    return {name: (value * min(1, 0.1 / norm)).astype(np.float32) for name, value in mean.items()}


def nesterov(task, state, gradients, step):
    """PyTorch's optim.SGD with nesterov: the step is g + momentum * m."""
    for name in NAMES:
        direction = gradients[name] + task.weight_decay * state[name]
        buffer = state.get(f"{name}.momentum")
        state[f"{name}.momentum"] = direction if buffer is None else task.momentum * buffer + direction
        state[name] = state[name] - np.float32(task.learning_rate) * (
            direction + task.momentum * state[f"{name}.momentum"]
        )


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("steps", [1, 3])
def test_averaged_gradients_count_one_nth_each_and_nothing_is_left(workers, steps):
    for tensor in trained(workers, steps=steps).values():
        assert [share.value for share in tensor.shares if share.is_determined] == pytest.approx(
            [1 / workers] * sum(share.is_determined for share in tensor.shares), abs=2e-3
        )
        assert tensor.residual <= tensor.floor
        assert tensor.decay.value == pytest.approx(0.001, abs=max(2e-4, tensor.decay.uncertainty))


SHARES = {
    "summed": ({"combine": summed}, (1.0, 1.0), 0.5, 0.001),
    "averaged twice": ({"combine": scaled(0.5)}, (0.25, 0.25), 0.5, 0.001),
    "rank 0's alone": ({"combine": lambda gradients: gradients[0]}, (1.0, 0.0), 0.5, 0.001),
    "a sum of losses": ({"combine": scaled(32)}, (16.0, 16.0), 0.5, 0.001),
    "the rate times the workers": (
        {"taught": dataclasses.replace(TASK, learning_rate=0.2)},
        (1.0, 1.0),
        # The velocity counts as often as the rate is larger.
        1.0,
        0.002,
    ),
    "momentum lost": ({"taught": dataclasses.replace(TASK, momentum=0.0)}, (0.5, 0.5), None, 0.001),
    "decay missing": ({"taught": dataclasses.replace(TASK, weight_decay=0.0)}, (0.5, 0.5), 0.5, 0.0),
}


@pytest.mark.parametrize("mistake", SHARES)
def test_a_mistake_shows_in_the_coefficients_and_leaves_nothing(mistake):
    changed, shares, velocity, decay = SHARES[mistake]
    tensor = trained(2, **changed)["layer1.weight"]
    assert [share.value for share in tensor.shares] == pytest.approx(shares, rel=2e-3, abs=2e-3)
    assert (tensor.velocity and tensor.velocity.value) == (velocity and pytest.approx(velocity, abs=5e-3))
    assert tensor.decay.value == pytest.approx(decay, abs=2e-4)
    assert tensor.residual <= tensor.floor


def test_clipping_is_one_factor_for_all_tensors():
    factors = [share.value for tensor in trained(2, clipped).values() for share in tensor.shares if share.is_determined]
    assert len(factors) > 4
    assert max(factors) - min(factors) < 0.01 < min(factors) < max(factors) < 0.4


def test_what_is_not_exchanged_is_determined_tensor_by_tensor():
    tensors = trained(2, only({"layer0.weight", "layer0.bias", "layer2.weight", "layer2.bias"}))
    assert [share.value for share in tensors["layer1.weight"].shares] == pytest.approx([1.0, 0.0], abs=2e-3)
    assert [share.value for share in tensors["layer0.weight"].shares] == pytest.approx([0.5, 0.5], abs=2e-3)


def test_the_gradient_of_the_step_before_is_stale():
    tensor = trained(2, of_last_step(), steps=4)["layer1.weight"]
    assert [share.value for share in tensor.shares] == pytest.approx([0.0, 0.0], abs=2e-3)
    assert tensor.stale.value == pytest.approx(1.0, abs=5e-3)


def test_nesterov_counts_gradients_more_and_looks_ahead():
    """(1 + momentum) g + momentum^2 velocity, and the decay likewise."""
    tensor = trained(2, sgd=nesterov)["layer1.weight"]
    assert [share.value for share in tensor.shares] == pytest.approx([0.75, 0.75], abs=5e-3)
    assert tensor.decay.value == pytest.approx(0.0015, abs=2e-4)


def rounded(dtype):
    """Through fewer bits: bfloat16 keeps the upper half of a float32."""

    def combine(gradients):
        mean = mean_of(gradients)
        if dtype == "bfloat16":
            return {name: (value.view(np.uint32) & 0xFFFF0000).view(np.float32) for name, value in mean.items()}
        return {name: value.astype(np.float16).astype(np.float32) for name, value in mean.items()}

    return combine


def maximum(gradients):
    return {name: np.maximum(*(each[name] for each in gradients)) for name in gradients[0]}


def row_lost(task, step, workers):
    (features, labels), *others = shards(task, step, workers)
    return ((features[1:], labels[1:]), *others)


UNEXPLAINED = {
    "bfloat16": {"combine": rounded("bfloat16")},
    "float16": {"combine": rounded("float16")},
    "a lost row": {"rows": row_lost},
    "a maximum": {"combine": maximum},
    "another activation": {"taught": dataclasses.replace(TASK, activation="relu")},
    "another batch order": {"rows": lambda task, step, workers: shards(task, step + 7, workers)},
}


@pytest.mark.parametrize("mistake", UNEXPLAINED)
def test_what_is_no_sum_of_the_workers_gradients_leaves_a_residual_above_its_floor(mistake):
    tensors = trained(2, **UNEXPLAINED[mistake])
    assert all(tensors[name].residual > tensors[name].floor for name in ("layer0.weight", "layer1.weight"))


@pytest.mark.parametrize("preset", ["digits", "mnist_5k", "pathway"])
@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_float32_gives_no_false_alarm(preset, activation, momentum):
    """Kinks of ReLU included, whose part of a gradient widens the floor."""
    for seed in range(4):
        task = dataclasses.replace(PRESETS[preset], activation=activation, momentum=momentum, seed=seed)
        for name, tensor in trained(2, task=task, steps=5).items():
            assert tensor.residual <= tensor.floor, (seed, name)
            for share in filter(lambda share: share.is_determined, tensor.shares):
                assert share.value == pytest.approx(0.5, abs=share.uncertainty)


def test_rows_at_a_kink_widen_the_floor_by_what_they_may_change():
    task = Task(dimensions=(2, 1, 2), activation="relu", bias=False, batch=1)
    weights = {"layer0.weight": np.array([[1.0], [-1.0]]), "layer1.weight": np.array([[1.0, -1.0]])}
    at_kink = recipe.worker_gradient(task, weights, np.array([[1.0, 1.0]]), np.array([0]))
    beside = recipe.worker_gradient(task, weights, np.array([[1.0, 0.5]]), np.array([0]))
    assert at_kink.kinks["layer0.weight"] > 0.1
    assert beside.kinks == {}


coefficients = st.floats(-2, 2).filter(lambda value: abs(value) > 1e-3)


@settings(max_examples=40, deadline=None)
@given(st.lists(coefficients, min_size=1, max_size=4), coefficients, coefficients, st.integers(0, 2**32 - 1))
def test_any_mixture_is_read_back(shares, velocity, decay, seed):
    draw = np.random.default_rng(seed)
    before, buffer, *gradients = ({"w": draw.standard_normal((30, 20))} for _ in range(len(shares) + 2))
    moved = sum(c * each["w"] for c, each in zip(shares, gradients, strict=True))
    moved += velocity * buffer["w"] + decay * before["w"]
    after = {"w": before["w"] - 0.1 * moved}
    tensor = recipe.read(Update(before, after, 0.1, [Gradient(each) for each in gradients], buffer))["w"]
    found = [*(share.value for share in tensor.shares), tensor.velocity.value, tensor.decay.value]
    assert found == pytest.approx([*shares, velocity, decay], abs=1e-9)
    assert tensor.residual < 1e-12


def determined(tensor):
    return [coefficient.is_determined for coefficient in (*tensor.shares, tensor.velocity, tensor.stale, tensor.decay)]


def test_parallel_columns_and_too_few_elements_and_zeros_leave_coefficients_open():
    draw = np.random.default_rng(0)
    gradients = [Gradient({"w": draw.standard_normal((8, 4))}) for _ in range(2)]
    before, stale = ({"w": draw.standard_normal((8, 4))} for _ in range(2))
    parallel = {"w": 3 * stale["w"]}
    after = {"w": before["w"] - 0.1 * sum(each.mean["w"] for each in gradients)}
    # Without momentum the velocity is the gradient of the step before.
    assert determined(recipe.read(Update(before, after, 0.1, gradients, parallel, stale))["w"]) == [
        True,
        True,
        False,
        False,
        True,
    ]
    zeros = {"w": np.zeros((8, 4))}
    assert determined(recipe.read(Update(before, after, 0.1, gradients, zeros, stale))["w"]) == [
        True,
        True,
        False,
        True,
        True,
    ]

    def first(state):
        return {"w": state["w"].ravel()[:4]}

    few = Update(
        first(before), first(after), 0.1, [Gradient(first(each.mean)) for each in gradients], first(zeros), first(stale)
    )
    assert sum(determined(recipe.read(few)["w"])) < 5


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"after": {}}, "layer0.weight is missing"),
        ({"after": {name: np.zeros(3) for name in NAMES}}, r"layer0.weight has the shape \(3,\), not \(64, 128\)"),
        ({"after": {name: np.full_like(mlp.initial_weights(TASK)[name], np.nan) for name in NAMES}}, "isn't finite"),
        ({"rate": 0.0}, "a rate of 0.0 moves nothing"),
        ({"gradients": [Gradient({})]}, "layer0.weight is missing"),
    ],
)
def test_evidence_that_is_no_update_is_refused_with_the_reason(change, why):
    weights = mlp.initial_weights(TASK)
    update = Update(weights, weights, 0.1, [recipe.worker_gradient(TASK, weights, *shards(TASK, 0, 1)[0])])
    with pytest.raises(ValueError, match=why):
        recipe.read(dataclasses.replace(update, **change))


def test_a_tensor_that_does_not_move_has_no_residual_and_tells_that_nothing_counted():
    weights = mlp.initial_weights(TASK)
    gradients = [recipe.worker_gradient(TASK, weights, *part) for part in shards(TASK, 0, 2)]
    tensor = recipe.read(Update(weights, weights, 0.1, gradients))["layer0.weight"]
    assert [share.value for share in tensor.shares] == pytest.approx([0.0, 0.0], abs=1e-12)
    assert tensor.residual == 0.0
