"""common/contract/recipe.py: two snapshots of the weights say what each worker's rows counted in the step between."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.contract import model, recipe
from common.contract.recipe import Gradient, Update
from common.contract.task import Task
from tests.common.contract.launches_in_numpy import NAMES, TASK, shards


def read(update):
    return {name: solved.recipe for name, solved in recipe.solve(update).items()}


def test_rows_at_a_kink_widen_the_floor_by_what_they_may_change():
    task = Task(dimensions=(2, 1, 2), activation="relu", bias=False, batch=1)
    weights = {"layer0.weight": np.array([[1.0], [-1.0]]), "layer1.weight": np.array([[1.0, -1.0]])}
    at_kink = recipe.worker_gradient(task, weights, np.array([[1.0, 1.0]]), np.array([0]))
    beside = recipe.worker_gradient(task, weights, np.array([[1.0, 0.5]]), np.array([0]))
    assert at_kink.noise["layer0.weight"] > 0.1 > 1e-5 > beside.noise["layer0.weight"]
    both = recipe.worker_gradient(task, weights, np.array([[1.0, 1.0], [1.0, 0.5]]), np.array([0, 0]))
    assert both.noise["layer0.weight"] == pytest.approx(at_kink.noise["layer0.weight"] / 2, rel=1e-3)


def test_what_a_saturated_network_loses_in_float32_widens_the_floor():
    """1 - tanh^2 cancels where tanh is nearly 1."""
    task = Task(dimensions=(1, 1, 2), activation="tanh", bias=False, batch=1)
    weights = {"layer0.weight": np.array([[5.0]]), "layer1.weight": np.array([[1.0, -1.0]])}
    found = recipe.worker_gradient(task, weights, np.array([[1.1]]), np.array([0]))
    relative = {name: found.noise[name] / np.linalg.norm(found.mean[name]) for name in weights}
    assert relative["layer0.weight"] > 1e-4 > relative["layer1.weight"]
    assert found.row_losses == pytest.approx([np.log1p(np.exp(-2 * np.tanh(5.5)))])


counts = st.floats(-2, 2).filter(lambda value: abs(value) > 1e-3)


@settings(max_examples=40, deadline=None)
@given(st.lists(counts, min_size=1, max_size=4), counts, counts, st.integers(0, 2**32 - 1))
def test_any_mixture_is_read_back(shares, velocity, decay, seed):
    draw = np.random.default_rng(seed)
    before, buffer, *gradients = ({"w": draw.standard_normal((30, 20))} for _ in range(len(shares) + 2))
    moved = sum(c * each["w"] for c, each in zip(shares, gradients, strict=True))
    moved += velocity * buffer["w"] + decay * before["w"]
    after = {"w": before["w"] - 0.1 * moved}
    solved = recipe.solve(Update(before, after, 0.1, [Gradient(each) for each in gradients], buffer))["w"]
    tensor = solved.recipe
    found = [*(share.value for share in tensor.shares), tensor.velocity.value, tensor.decay.value]
    assert found == pytest.approx([*shares, velocity, decay], abs=1e-6)
    assert tensor.residual < 1e-9
    exact, first = np.array(found), np.eye(len(found))[0]
    assert solved.apart(exact) < 1e-5
    share = np.linalg.norm(gradients[0]["w"]) / np.linalg.norm(moved)
    assert solved.apart(exact + 0.1 * first) == pytest.approx(0.1 * share, rel=1e-3)
    assert solved.along(exact - 2 * first, first) == pytest.approx(2, rel=1e-3)
    assert solved.floor(exact) == pytest.approx(tensor.floor, rel=1e-3)
    assert np.isnan(solved.along(exact, 0 * first))


def test_what_has_not_moved_is_as_far_from_a_sum_as_that_is_long():
    draw = np.random.default_rng(0)
    weights, gradient = ({"w": draw.standard_normal((30, 20))} for _ in range(2))
    solved = recipe.solve(Update(weights, weights, 0.1, [Gradient(gradient, noise={"w": 0.5})]))["w"]
    assert not solved.has_moved
    assert solved.apart(np.array([2.0, 0.0])) == pytest.approx(2 * np.linalg.norm(gradient["w"]))
    assert solved.floor(np.array([2.0, 0.0])) == pytest.approx(1.0, rel=1e-2)
    assert (solved.recipe.residual, solved.recipe.floor) == (0.0, 0.0)


def test_what_no_sum_explains_is_the_residual_and_makes_shares_unsure_and_what_is_not_given_is_not_told():
    draw = np.random.default_rng(0)
    weights, gradient, other = ({"w": draw.standard_normal((30, 20))} for _ in range(3))
    after = {"w": weights["w"] - 0.1 * (gradient["w"] + 0.01 * other["w"])}
    tensor = read(Update(weights, after, 0.1, [Gradient(gradient)]))["w"]
    assert (tensor.residual, tensor.shares[0].uncertainty) == pytest.approx((0.01, 0.01), rel=0.1)
    assert tensor.velocity is tensor.stale is None


def open_of(update):
    """A + for each coefficient that is told, else a -: of both shares, of velocity, stale gradient and decay."""
    tensor = read(update)["w"]
    coefficients = [*tensor.shares, tensor.velocity, tensor.stale, tensor.decay]
    return "".join("-" if coefficient is None else "+" for coefficient in coefficients)


@pytest.mark.parametrize("scale", [0.1, 10.0])
def test_parallel_columns_and_too_few_elements_and_zeros_leave_coefficients_open_however_long_columns_are(scale):
    draw = np.random.default_rng(0)
    first, second, before = ({"w": draw.standard_normal((8, 4))} for _ in range(3))
    stale = {"w": scale * draw.standard_normal((8, 4))}
    gradients = [Gradient(first), Gradient(second)]
    after = {"w": before["w"] - 0.1 * (first["w"] + second["w"])}
    # Without momentum the velocity is the gradient of the step before.
    assert open_of(Update(before, after, 0.1, gradients, {"w": 3 * stale["w"]}, Gradient(stale))) == "++--+"
    # And where float32 was on the other side of a kink nearly so.
    near = {"w": stale["w"] + 0.001 * scale * draw.standard_normal((8, 4))}
    assert open_of(Update(before, after, 0.1, gradients, near, Gradient(stale))) == "+++++"
    noisy = recipe.mean_of([Gradient(stale, noise={"w": 0.04 * scale}), Gradient(stale)])
    assert noisy.noise == pytest.approx({"w": 0.02 * scale})
    assert open_of(Update(before, after, 0.1, gradients, near, noisy)) == "++--+"
    zeros = {"w": np.zeros((8, 4))}
    assert open_of(Update(before, after, 0.1, gradients, zeros, Gradient(stale))) == "++-++"
    few = [{"w": state["w"].ravel()[:4]} for state in (before, after, first, second, zeros, stale)]
    assert "-" in open_of(Update(*few[:2], 0.1, [Gradient(each) for each in few[2:4]], few[4], Gradient(few[5])))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"after": {}}, "layer0.weight is missing"),
        ({"after": {name: np.zeros(3) for name in NAMES}}, r"layer0.weight has the shape \(3,\), not \(64, 128\)"),
        ({"after": {name: np.full_like(model.initial_weights(TASK)[name], np.nan) for name in NAMES}}, "isn't finite"),
        ({"rate": 0.0}, "a rate of 0.0 moves nothing"),
        ({"gradients": [Gradient({})]}, "layer0.weight is missing"),
    ],
)
def test_evidence_that_is_no_update_is_refused_with_the_reason(change, why):
    weights = model.initial_weights(TASK)
    update = Update(weights, weights, 0.1, [recipe.worker_gradient(TASK, weights, *shards(TASK, 0, 1)[0])])
    with pytest.raises(ValueError, match=why):
        recipe.solve(dataclasses.replace(update, **change))


def test_a_first_moment_tells_the_gradient_and_the_decay_of_weights_beside_it():
    draw = np.random.default_rng(0)
    weights, moment, *gradients = ({"w": draw.standard_normal((30, 20))} for _ in range(4))
    got = 0.75 * gradients[0]["w"] + 0.25 * gradients[1]["w"] + 0.01 * weights["w"]
    after = {"w": (0.9 * moment["w"] + 0.1 * got).astype(np.float32)}
    columns = [Gradient(each) for each in gradients]
    update = Update({"w": 0.9 * moment["w"]}, after, -0.1, columns, weights=weights, rounding=1e-3)
    exact = read(dataclasses.replace(update, rounding=recipe.WEIGHT_ROUNDING))["w"]
    assert [each.value for each in (*exact.shares, exact.decay)] == pytest.approx([0.75, 0.25, 0.01], abs=1e-5)
    assert read(update)["w"].floor > 1e-3 > exact.floor > exact.residual
