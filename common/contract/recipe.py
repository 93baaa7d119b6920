"""The recipe of an update: what each worker's rows counted in one step, read from the weights before and after it.

SGD moves the weights along a sum of columns that the oracle knows as well:

    (before - after) / rate = c_1 g_1 + ... + c_N g_N + mu velocity + s stale + lambda before

g_i is the mean gradient of worker i's own rows at its replica's weights, `velocity` the update before, over its rate,
and `stale` the mean gradient of the step before. Least squares gives the coefficients of each tensor by itself, and
they are what the launch did: c_i is 1 / N where gradients are averaged, 1 where they are summed, and 0 for a worker
that was left out. Nothing accumulates from one step to the next, so any step of any run can be read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from common.contract import model
from common.contract.model import State
from common.contract.task import Task

WEIGHT_ROUNDING = 2.0**-24
"""The largest relative error of a number that is rounded to float32 (IEEE 754-2019, section 4.3.1)."""

GRADIENT_ROUNDING = 2e-6
"""The largest relative error of a gradient that is computed in float32, by norms.

It is twice the largest of 1,080 steps of NumPy in float32, a third each of digits, mnist_5k and pathway.
"""

_TIMES_NUMPY = 4.0
"""How many times as far from float64 as NumPy's float32 another order of the same sums may be."""

KINK_DISTANCE = 1e-6
"""A ReLU's pre-activation nearer to zero than this can have the other sign in float32."""

LARGEST_UNCERTAINTY = 0.05
"""A coefficient that rounding may have moved by more can't be told."""


@dataclass(frozen=True)
class Gradient:
    """A worker's mean gradient, of its own rows at its own replica's weights."""

    mean: State
    row_losses: np.ndarray = field(default_factory=lambda: np.empty(0))
    """The loss of each of these rows at the same weights, (rows,)."""
    noise: Mapping[str, float] = field(default_factory=dict[str, float])
    """By tensor, the norm by which it may be another one in float32, beyond GRADIENT_ROUNDING: where activations are
    saturated, and where rows are at a ReLU's kink, whose other side float32 may take."""


@dataclass(frozen=True)
class Update:
    """One step of one replica. All states have the same tensors, (inputs, outputs) or (outputs,); the rate isn't 0."""

    before: State
    after: State
    rate: float
    gradients: Sequence[Gradient]
    """Each worker's."""
    velocity: State | None = None
    """The update before, over its rate, which is SGD's momentum buffer; None: it isn't known, or there was none."""
    stale: Gradient | None = None
    """The mean gradient of the step before; None: it isn't known."""
    weights: State | None = None
    """The weights that decay, where `before` and `after` are an optimizer's first moment; None: `before`."""
    rounding: float = WEIGHT_ROUNDING
    """The largest relative error of a number of `after`."""


@dataclass(frozen=True)
class Coefficient:
    """How often a column was added to a tensor's update."""

    value: float
    uncertainty: float
    """By how much rounding, or what no column explains, may have moved it."""


@dataclass(frozen=True)
class TensorRecipe:
    """The recipe of one tensor's update. A coefficient is None where rounding, or the other columns, leave it open."""

    shares: tuple[Coefficient | None, ...]
    """Of each worker's gradient, in the order of the workers."""
    velocity: Coefficient | None
    """Of the update before."""
    stale: Coefficient | None
    """Of the gradient of the step before."""
    decay: Coefficient | None
    """Of the weights before the step."""
    residual: float
    """The norm of what no column explains over the norm of the update; 0 where nothing moved."""
    floor: float
    """The residual that rounding alone explains."""
    declared: float = 0.0
    """The residual with the coefficients that the strategy declares."""


@dataclass(frozen=True)
class Solved:
    """A tensor's update beside its columns, of which only lengths and angles are kept."""

    recipe: TensorRecipe
    _values: np.ndarray
    """The coefficients that least squares gave."""
    _squares: np.ndarray
    """The columns' products with one another, (columns, columns)."""
    _moved: float
    """The norm of the update over its rate."""
    _noise: np.ndarray
    """What a coefficient of 1 adds to the norm that rounding explains, (columns,)."""
    _weight_noise: float
    """And what the rounding of the weights adds to it."""

    @property
    def has_moved(self) -> bool:
        """Whether the step changed anything of the tensor."""
        return self._moved > 0

    def apart(self, coefficients: np.ndarray) -> float:
        """How far a sum with these coefficients, (columns,), is from the nearest one, over the norm of the update."""
        difference = coefficients - self._values
        return float(np.sqrt(max(0.0, difference @ self._squares @ difference))) / (self._moved or 1.0)

    def floor(self, coefficients: np.ndarray) -> float:
        """What rounding explains of the residual where these are the coefficients."""
        return float(self._weight_noise + np.abs(coefficients) @ self._noise) / (self._moved or 1.0)

    def along(self, coefficients: np.ndarray, direction: np.ndarray) -> float:
        """How often to add the direction to the coefficients, so that the update is explained best; NaN: it's zero."""
        square = float(direction @ self._squares @ direction)
        return float(direction @ self._squares @ (self._values - coefficients)) / square if square else float("nan")


def solve(update: Update) -> dict[str, Solved]:
    """Return the recipe of each tensor, and how near others are.

    Raises ValueError for a tensor that is missing, has another shape, or isn't finite, and for a rate of 0.
    """
    if not update.rate or not np.isfinite(update.rate):
        raise ValueError(f"a rate of {update.rate} moves nothing")
    return {name: _solved(update, name) for name in update.before}


def _solved(update: Update, name: str) -> Solved:
    workers, stale = len(update.gradients), [] if update.stale is None else [update.stale]
    velocity = [] if update.velocity is None else [update.velocity]
    states = [*(each.mean for each in update.gradients), *velocity, *(each.mean for each in stale)]
    shape = update.before[name].shape
    decaying = update.before if update.weights is None else update.weights
    *columns, before, after = [_flat(state, name, shape) for state in (*states, decaying, update.before, update.after)]
    moved = (before - after) / update.rate
    matrix = np.stack(columns, axis=1)
    lengths = np.linalg.norm(matrix, axis=0)
    # The weights are rounded after each step, of which the velocity is one, and each gradient while it is computed.
    weight_noise = update.rounding * float(np.linalg.norm(after)) / abs(update.rate)
    beyond_rounding = [gradient.noise.get(name, 0.0) for gradient in (*update.gradients, *stale)]
    beyond_rounding[workers:workers] = [weight_noise for _ in velocity]
    noise = GRADIENT_ROUNDING * lengths + np.array([*beyond_rounding, 0.0])
    values, sensitivities, open_parts = _least_squares(matrix, moved, lengths, noise)
    length, rest = float(np.linalg.norm(moved)), float(np.linalg.norm(moved - matrix @ values))
    rounding = weight_noise + float(np.abs(values) @ noise)
    uncertainties = sensitivities * max(rounding, rest) + open_parts * _MOST_TIMES * (length or 1.0)
    coefficients = [
        Coefficient(_rounded(value), _rounded(uncertainty)) if uncertainty <= LARGEST_UNCERTAINTY else None
        for value, uncertainty in zip(values, uncertainties, strict=True)
    ]
    named = iter(coefficients[workers:])
    recipe = TensorRecipe(
        shares=tuple(coefficients[:workers]),
        velocity=next(named) if velocity else None,
        stale=next(named) if stale else None,
        decay=coefficients[-1],
        residual=_rounded(rest / length if length else 0.0),
        floor=_rounded(rounding / length if length else 0.0),
    )
    return Solved(recipe, values, matrix.T @ matrix, length, noise, weight_noise)


def worker_gradient(
    task: Task, weights: Mapping[str, np.ndarray], features: np.ndarray, labels: np.ndarray
) -> Gradient:
    """Return the mean gradient of a worker's own rows, (rows, inputs) and (rows,), in float64 at its own weights."""
    names = model.parameter_names(task)
    if missing := [name for name in names if name not in weights]:
        raise ValueError(f"{missing[0]} is missing")
    exact = {name: weights[name].astype(np.float64) for name in names}
    rows = features.astype(np.float64), labels
    computed = model.loss_and_gradients(task, exact, *rows)
    mean, single = computed.gradients, {name: weights[name].astype(np.float32) for name in names}
    rounded = model.loss_and_gradients(task, single, features.astype(np.float32), labels).gradients
    noise = {name: _TIMES_NUMPY * float(np.linalg.norm(rounded[name] - mean[name])) for name in names}
    if computed.kink_distance() <= KINK_DISTANCE:
        below, above = (
            model.loss_and_gradients(task, exact, *rows, kink=kink).gradients
            for kink in (-KINK_DISTANCE, KINK_DISTANCE)
        )
        noise = {name: noise[name] + float(np.linalg.norm(below[name] - above[name])) for name in names}
    return Gradient(mean, computed.row_losses, noise)


def mean_of(gradients: Sequence[Gradient]) -> Gradient:
    """The mean of the workers' mean gradients, and by how much it may be off where all of them are."""
    mean = {name: np.mean([each.mean[name] for each in gradients], axis=0) for name in gradients[0].mean}
    noise = {name: float(np.mean([each.noise.get(name, 0.0) for each in gradients])) for name in mean}
    return Gradient(mean, noise=noise)


def _rounded(value: float) -> float:
    """To as many digits as anybody needs in a record."""
    return float(f"{value:.7g}")


def _least_squares(
    matrix: np.ndarray, target: np.ndarray, lengths: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The coefficients of columns with these lengths nearest to the target.

    Beside them stands by how much each follows a change of the target: one by a vector of norm d moves a coefficient by
    at most its sensitivity times d, which is the norm of its row of the pseudoinverse (Golub & Van Loan, "Matrix
    Computations", section 5.5.2). Last is by how much sums of columns leave it open that depend on one another, but for
    the noise of the columns. By the normal equations, whose error the second solution takes back, since columns are
    much longer than many.
    """
    scales = np.where(lengths, lengths, 1)
    unit = matrix / scales
    squares, vectors = np.linalg.eigh(unit.T @ unit)
    kept = squares > _DEPENDENT * squares[-1]
    inverse = (vectors[:, kept] / squares[kept]) @ vectors[:, kept].T
    values = inverse @ (unit.T @ target)
    values += inverse @ (unit.T @ (target - unit @ values))
    is_told = kept & (squares > (np.abs(vectors).T @ (noise / scales)) ** 2)
    open_parts = np.linalg.norm(vectors[:, ~is_told], axis=1) / scales
    return values / scales, np.sqrt(np.diag(inverse)) / scales, np.where(lengths, open_parts, np.inf)


_DEPENDENT = 1e-12
"""Columns of length 1 whose sum, with coefficients of norm 1, has a square below this depend on one another."""

_MOST_TIMES = 3.0
"""The largest coefficient, of columns as long as the update, that a sum of dependent columns is taken to have."""


def _flat(state: Mapping[str, np.ndarray], name: str, shape: tuple[int, ...]) -> np.ndarray:
    """The tensor's elements in one column, in float64."""
    if name not in state:
        raise ValueError(f"{name} is missing")
    tensor = np.asarray(state[name], np.float64)
    if tensor.shape != shape:
        raise ValueError(f"{name} has the shape {tensor.shape}, not {shape}")
    if not np.isfinite(tensor).all():
        raise ValueError(f"{name} isn't finite")
    return tensor.ravel()
