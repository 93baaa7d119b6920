"""The recipe of an update: what each worker's rows counted in one step, read from the weights before and after it.

SGD moves the weights along a sum of columns that the oracle knows as well:

    (before - after) / rate = c_1 g_1 + ... + c_N g_N + mu velocity + s stale + lambda before

g_i is the mean gradient of worker i's own rows at its replica's weights, `velocity` the momentum before the step, and
`stale` the mean gradient of the step before. Least squares gives the coefficients of each tensor by itself, and they
are what the launch did: c_i is 1 / N where gradients are averaged, 1 where they are summed, and 0 for a worker that was
left out. Nothing accumulates from one step to the next, so any step of any run can be read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from common.contract import mlp
from common.contract.mlp import State
from common.contract.task import Task

WEIGHT_ROUNDING = 2.0**-24
"""The largest relative error of a number that is rounded to float32 (IEEE 754-2019, section 4.3.1)."""

GRADIENT_ROUNDING = 2e-6
"""The largest relative error of a gradient that is computed in float32, by norms.

It is twice the largest of 1,080 steps of NumPy in float32, a third each of digits, mnist_5k and pathway.
"""

LARGEST_UNCERTAINTY = 0.02
"""A coefficient that rounding may have moved by more isn't determined."""


@dataclass(frozen=True)
class Gradient:
    """A worker's mean gradient, of its own rows at its own replica's weights."""

    mean: State
    kinks: Mapping[str, float] = field(default_factory=dict[str, float])
    """By tensor, the norm of what rows at a ReLU's kink add to it, where float32 may take the other side; empty without
    such rows."""


@dataclass(frozen=True)
class Update:
    """One step of one replica. All states have the same tensors, (inputs, outputs) or (outputs,); the rate isn't 0."""

    before: State
    after: State
    rate: float
    gradients: Sequence[Gradient]
    """Each worker's."""
    velocity: State | None = None
    """The momentum buffers before the step; None: without momentum, or in the first step."""
    stale: State | None = None
    """The mean gradient of the step before; None: it isn't known."""


@dataclass(frozen=True)
class Coefficient:
    """How often a column was added to a tensor's update."""

    value: float
    uncertainty: float
    """By how much rounding may have moved it; infinite where another column, or too few elements, leave it open."""

    @property
    def is_determined(self) -> bool:
        """Whether rounding and the other columns leave it sure enough."""
        return self.uncertainty <= LARGEST_UNCERTAINTY


@dataclass(frozen=True)
class TensorRecipe:
    """The recipe of one tensor's update."""

    shares: tuple[Coefficient, ...]
    """Of each worker's gradient, in the order of the workers."""
    velocity: Coefficient | None
    """Of the momentum before the step; None where the step had none."""
    stale: Coefficient | None
    """Of the gradient of the step before; None where it isn't known."""
    decay: Coefficient
    """Of the weights before the step."""
    residual: float
    """The norm of what no column explains over the norm of the update; 0 where nothing moved."""
    floor: float
    """The residual that rounding alone explains; infinite where nothing moved."""


def read(update: Update) -> dict[str, TensorRecipe]:
    """Return the recipe of each tensor.

    Raises ValueError for a tensor that is missing, has another shape, or isn't finite, and for a rate of 0.
    """
    if not update.rate or not np.isfinite(update.rate):
        raise ValueError(f"a rate of {update.rate} moves nothing")
    workers, optional = len(update.gradients), [update.velocity, update.stale]
    recipes: dict[str, TensorRecipe] = {}
    for name, before in update.before.items():
        means = [gradient.mean for gradient in update.gradients]
        states = [*means, *(state for state in optional if state is not None), update.before, update.after]
        columns = [_flat(state, name, before.shape) for state in states]
        after = columns.pop()
        moved = (columns[-1] - after) / update.rate
        values, sensitivities = _solve(columns, moved)
        # The weights are rounded after the step, and each gradient while it is computed.
        rounding = WEIGHT_ROUNDING * np.linalg.norm(after) / abs(update.rate)
        rounding += GRADIENT_ROUNDING * sum(
            abs(value) * np.linalg.norm(column) for value, column in zip(values, columns, strict=True)
        )
        rounding += sum(
            abs(value) * gradient.kinks.get(name, 0.0)
            for value, gradient in zip(values, update.gradients, strict=False)
        )
        coefficients = [
            Coefficient(float(value), float(sensitivity * rounding))
            for value, sensitivity in zip(values, sensitivities, strict=True)
        ]
        named = iter(coefficients[workers:])
        length = float(np.linalg.norm(moved))
        rest = float(np.linalg.norm(moved - np.stack(columns, axis=1) @ values))
        recipes[name] = TensorRecipe(
            shares=tuple(coefficients[:workers]),
            velocity=next(named) if update.velocity is not None else None,
            stale=next(named) if update.stale is not None else None,
            decay=coefficients[-1],
            residual=rest / length if length else 0.0,
            floor=float(rounding) / length if length else np.inf,
        )
    return recipes


def worker_gradient(
    task: Task, weights: Mapping[str, np.ndarray], features: np.ndarray, labels: np.ndarray
) -> Gradient:
    """Return the mean gradient of a worker's own rows, (rows, inputs) and (rows,), in float64 at its own weights."""
    exact = {name: weights[name].astype(np.float64) for name in mlp.parameter_names(task)}
    rows = features.astype(np.float64), labels
    _, mean, pre_activations = mlp.loss_and_gradients(task, exact, *rows)
    nearest, kinks = mlp.kinks(task, 0, pre_activations), dict[str, float]()
    if nearest and nearest[0].is_near:
        (_, below, _), (_, above, _) = (
            mlp.loss_and_gradients(task, exact, *rows, kink=kink) for kink in (-mlp.KINK_DISTANCE, mlp.KINK_DISTANCE)
        )
        kinks = {name: float(np.linalg.norm(below[name] - above[name])) for name in mean}
    return Gradient(mean, kinks)


def _solve(columns: Sequence[np.ndarray], target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The coefficients of the columns nearest to the target, and by how much each follows a change of the target.

    A change of the target by a vector of norm d moves a coefficient by at most its sensitivity times d, which is the
    norm of its row of the pseudoinverse (Golub & Van Loan, "Matrix Computations", section 5.5.2). It is infinite for a
    coefficient that columns which depend on one another, or zeros, leave open.
    """
    lengths = np.array([np.linalg.norm(column) for column in columns])
    # Of equal length, so that what is singular doesn't depend on the columns' scales.
    matrix = np.stack([column / (length or 1) for column, length in zip(columns, lengths, strict=True)], axis=1)
    left, singular, right = np.linalg.svd(matrix, full_matrices=False)
    # As many singular values as columns, those that a matrix with fewer rows lacks among them.
    rank = int((singular > max(matrix.shape) * np.finfo(np.float64).eps * singular[0]).sum())
    inverse = right[:rank].T / singular[:rank]
    open_part = 1 - (right[:rank] ** 2).sum(axis=0)
    values = (inverse @ (left[:, :rank].T @ target)) / np.where(lengths, lengths, 1)
    sensitivities = np.linalg.norm(inverse, axis=1) / np.where(lengths, lengths, 1)
    return values, np.where((open_part > 1e-9) | (lengths == 0), np.inf, sensitivities)


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
