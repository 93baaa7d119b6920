"""The oracle: the float64 NumPy run that every synchronous strategy must follow."""

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np
from threadpoolctl import threadpool_limits

from common.contract import dataset, model, rows
from common.contract.model import Trajectory
from common.contract.rows import Piece
from common.contract.task import Task

LOSS_TOLERANCE = 1e-5
"""The largest relative deviation of a loss with which a launch follows the oracle."""

LOSS_FLOOR = 0.1
"""The least divisor of a loss's deviation, since float32 keeps losses to about 1e-6 at best."""

_ROWS_AT_ONCE = 2048


def run_oracle(
    task: Task,
    global_batch: int,
    steps: int,
    dtype: type[np.floating] = np.float64,
    earlier_pieces: Sequence[Piece] = (),
) -> Trajectory:
    """Train `steps` steps of `global_batch` rows on one core; pathway takes about 10 ms a step.

    A run in float32 shows how far rounding alone leads from the oracle. The first of the steps are those of the
    earlier pieces, with global batches of other sizes, whose losses aren't kept: they are NaN.
    """
    data = dataset.load(task)
    with threadpool_limits(1):
        trained = model.train(task, _batches(task, data, global_batch, steps, earlier_pieces), dtype)
    kept = trained.row_losses[sum(piece.steps for piece in earlier_pieces) :]
    missing = [np.full(global_batch, np.nan)] * (steps - len(kept))
    return dataclasses.replace(trained, row_losses=[*missing, *kept])


def loss_deviation(loss: float | None, expected: float) -> float:
    """The relative deviation of a loss from the oracle's: infinite where it isn't finite."""
    deviation = math.nan if loss is None else abs(loss - expected) / max(abs(expected), LOSS_FLOOR)
    return deviation if math.isfinite(deviation) else math.inf


def training_loss(task: Task, weights: model.State) -> float:
    """The mean cross-entropy of all training rows under these weights, in float64; not finite if a weight isn't."""
    data = dataset.load(task)
    exact = {name: weights[name].astype(np.float64) for name in model.parameter_names(task)}
    total = 0.0
    with threadpool_limits(1), np.errstate(all="ignore"):
        for start in range(0, len(data.train_labels), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            logits = model.forward(task, exact, data.train_features[part].astype(np.float64))
            total += model.row_losses(logits, data.train_labels[part]).sum()
    return float(total / len(data.train_labels))


def _batches(
    task: Task, data: dataset.Dataset, global_batch: int, steps: int, earlier_pieces: Sequence[Piece] = ()
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    order = rows.RowOrder(len(data.train_labels), task.seed)
    sizes = [size for piece in earlier_pieces for size in [piece.global_batch] * piece.steps]
    position = 0
    for step in range(steps):
        size = sizes[step] if step < len(sizes) else global_batch
        batch = rows.Batch(step, order.cut(position, position + size), data)
        position += size
        yield batch.features, batch.labels
