"""The oracle: the float64 NumPy run that every synchronous strategy must follow, and deviations from it."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from common.contract import dataset, mlp, rows
from common.contract.mlp import Kink, Trajectory
from common.contract.rows import Piece
from common.contract.task import Task
from common.contract.work import Alone

LOSS_TOLERANCE = 1e-5
"""The largest relative deviation of a loss with which a launch follows the oracle."""

LOSS_FLOOR = 0.1
"""The least divisor of a loss's deviation, since float32 keeps losses to about 1e-6 at best."""

WEIGHT_TOLERANCE = 5e-6
"""The largest deviation of the final weights: the norm of the difference over the norm."""

LOSS_BOUND, WEIGHT_BOUND = 2e-2, 2e-3
"""Largest deviations of a loss and of the final weights that a kink explains.

In 17 float32 runs of 300 to 1,000 steps on digits, each past a kink, the largest deviation of a shard's loss was
5.8e-3, and that of the final weights 4.0e-4.
"""

_ROWS_AT_ONCE = 2048


@dataclass(frozen=True)
class Deviation:
    """The deviation of a launch from the oracle, over all of its steps."""

    loss: float
    """The largest deviation of a loss, by `loss_deviations`; infinite unless every step has a loss."""
    shard: float
    """The largest deviation of a shard's loss; infinite unless every shard has a loss for every step."""
    weights: float | None
    """The deviation of the final weights; None where the record names no file of weights."""
    left_at: int | None
    """The first step with a loss outside the tolerance, of the whole batch or of a shard; None without one."""
    kink: Kink | None
    """The oracle's first pre-activation near enough to zero that float32 may take the other side."""
    examples: int
    """Rows that all processes computed on, over all steps."""
    expected_examples: int
    """Rows of the global batch, over all steps."""

    @property
    def follows(self) -> bool:
        """Whether losses, shards' losses, weights and the count of rows are all within the contract."""
        return self._is_within(LOSS_TOLERANCE, WEIGHT_TOLERANCE)

    @property
    def follows_up_to_the_kink(self) -> bool:
        """Whether the launch follows the oracle through the step of its first kink, and a kink explains the rest.

        The loss of that step still has to keep the contract: it is taken of weights that the kink hasn't changed yet.
        """
        if self.kink is None or (self.left_at is not None and self.left_at <= self.kink.step):
            return False
        return self._is_within(LOSS_BOUND, WEIGHT_BOUND)

    def _is_within(self, loss: float, weights: float) -> bool:
        losses_are = max(self.loss, self.shard) <= loss
        weights_are = self.weights is None or self.weights <= weights
        return losses_are and weights_are and self.examples == self.expected_examples


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
        trained = mlp.train(task, _batches(task, data, global_batch, steps, earlier_pieces), dtype)
    kept = trained.row_losses[sum(piece.steps for piece in earlier_pieces) :]
    missing = [np.full(global_batch, np.nan)] * (steps - len(kept))
    return dataclasses.replace(trained, row_losses=[*missing, *kept])


def run_alone(
    task: Task, global_batch: int, steps: int, workers: int, alone: Alone, dtype: type[np.floating] = np.float64
) -> Trajectory:
    """Train with gradient exchange off, on one core; a step's rows are those of all workers, in their order.

    `dtype` as for `run_oracle`.
    """
    data = dataset.load(task)
    initial = {name: value.astype(dtype) for name, value in mlp.initial_weights(task).items()}
    states = [dict(initial) for _ in range(1 if alone is Alone.FIRST_PART else workers)]
    owners = owners_of(task, workers) if alone is Alone.OWN_PARAMETERS else {}
    factor = 1 / workers if alone in (Alone.OWN_PART, Alone.FIRST_PART) else 1.0
    losses: list[np.ndarray] = []
    kinks: list[Kink] = []
    with threadpool_limits(1):
        for step, batch in enumerate(_batches(task, data, global_batch, steps)):
            shards = list(zip(*(np.split(part, workers) for part in batch), strict=True))
            computed = [
                mlp.loss_and_gradients(task, states[worker % len(states)], features.astype(dtype), labels)
                for worker, (features, labels) in enumerate(shards)
            ]
            logits = np.concatenate([pre_activations[-1] for _, _, pre_activations in computed])
            losses.append(mlp.row_losses(logits, batch[1]))
            smallest = [kink for _, _, pre_activations in computed for kink in mlp.kinks(task, step, pre_activations)]
            kinks += sorted(smallest, key=lambda kink: kink.distance)[:1]
            for worker, state in enumerate(states):
                before = dict(state)
                gradients = {name: dtype(factor) * gradient for name, gradient in computed[worker][1].items()}
                mlp.update(task, state, gradients, step)
                state |= {name: before[name] for name, owner in owners.items() if owner != worker}
    return Trajectory(losses, states, kinks)


def owners_of(task: Task, workers: int) -> dict[str, int]:
    """The worker that updates each parameter, where optimizer states are divided by whole parameters.

    Each parameter, the largest first, goes to the worker with the fewest elements so far. So does
    `_partition_parameters` of `ZeroRedundancyOptimizer`.
    """
    held, owners = [0] * workers, {}
    sizes = {name: value.size for name, value in mlp.initial_weights(task).items()}
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        owners[name] = held.index(min(held))
        held[owners[name]] += sizes[name]
    return owners


def certificate_task(task: Task, global_batches: list[int]) -> Task:
    """`task` with the first seed, from its own upwards, whose oracle meets no kink at any of the global batches."""
    if task.activation != "relu":
        return task
    for seed in range(task.seed, task.seed + 100):
        candidate = dataclasses.replace(task, seed=seed)
        runs = [run_oracle(candidate, batch, candidate.steps) for batch in global_batches]
        if all(run.kink and not run.kink.is_near for run in runs):
            return candidate
    raise RuntimeError(f"Every seed from {task.seed} on meets a kink within {task.steps} steps.")


def training_loss(task: Task, weights: mlp.State) -> float:
    """The mean cross-entropy of all training rows under these weights, in float64; not finite if a weight isn't."""
    data = dataset.load(task)
    exact = {name: weights[name].astype(np.float64) for name in mlp.parameter_names(task)}
    total = 0.0
    with threadpool_limits(1), np.errstate(all="ignore"):
        for start in range(0, len(data.train_labels), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            logits = mlp.forward(task, exact, data.train_features[part].astype(np.float64))[-1]
            total += mlp.row_losses(logits, data.train_labels[part]).sum()
    return float(total / len(data.train_labels))


def loss_deviations(losses: Sequence[float | None], oracle: Sequence[float] | np.ndarray) -> np.ndarray:
    """The relative deviation of each loss from the oracle's loss of the same step, (steps,).

    It is the difference over the oracle's loss, or over `LOSS_FLOOR` if that is larger. It is infinite where either
    loss isn't finite. All deviations are infinite where the numbers of losses differ. Without any step there is one
    infinite deviation.
    """
    if len(losses) != len(oracle) or not len(oracle):
        return np.full(max(1, len(oracle)), np.inf)
    # A loss that is None becomes NaN.
    launch_losses, oracle_losses = np.array(losses, np.float64), np.asarray(oracle, np.float64)
    with np.errstate(invalid="ignore"):
        deviations = np.abs(launch_losses - oracle_losses) / np.maximum(np.abs(oracle_losses), LOSS_FLOOR)
    return np.nan_to_num(deviations, nan=np.inf, posinf=np.inf)


def weight_deviation(weights: Mapping[str, np.ndarray], oracle: Mapping[str, np.ndarray]) -> float:
    """The norm of the difference of all weights over the norm of the oracle's. Raises ValueError for other names."""
    if set(weights) != set(oracle):
        raise ValueError(f"The weights are {sorted(weights)}, the oracle's {sorted(oracle)}.")
    difference = sum(float(((weights[name] - oracle[name]) ** 2).sum()) for name in oracle)
    norm = sum(float((oracle[name] ** 2).sum()) for name in oracle)
    result = float(np.sqrt(difference / norm))
    return result if np.isfinite(result) else float("inf")


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
