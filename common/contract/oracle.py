"""The oracle: the float64 NumPy run that every synchronous strategy must follow, and how far a record is from it."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file
from threadpoolctl import threadpool_limits

from common.contract import dataset, mlp, rows
from common.contract.mlp import KINK_DISTANCE, Kink, State, Trajectory
from common.contract.task import Task
from common.errors import UserError
from common.measurement.record import Record
from common.strategy import Alone

LOSS_TOLERANCE = 1e-5
"""Largest relative deviation of a loss that counts as following the oracle."""

WEIGHT_TOLERANCE = 5e-6
"""Largest deviation of the final weights, norm of the difference over the norm."""

TOLERATED_STEPS = 100
"""Number of initial steps to which the tolerances apply."""

_ROWS_AT_ONCE = 2048


@dataclass(frozen=True)
class Deviation:
    """How far a launch is from the oracle."""

    loss: float
    """Largest relative deviation over the first `TOLERATED_STEPS` steps."""
    shard: float | None
    """The same of any shard's loss; infinite where there is none of some shard, None when the record knows of none."""
    weights: float | None
    """Deviation of the final weights; None when the record names no file of them."""
    kink: Kink | None
    """The pre-activation that came nearest to zero before a ReLU, when it came within `KINK_DISTANCE`."""
    examples: int
    """Rows that all processes computed on, over all steps."""
    expected_examples: int
    """Rows that the steps of the global batch have."""

    @property
    def follows(self) -> bool:
        """Whether losses, those of the shards too, weights and the count of the rows are all within the contract."""
        losses_follow = max(self.loss, self.shard or 0.0) <= LOSS_TOLERANCE
        weights_follow = self.weights is None or self.weights <= WEIGHT_TOLERANCE
        return losses_follow and weights_follow and self.examples == self.expected_examples


def run_oracle(task: Task, global_batch: int, steps: int, dtype: type[np.floating] = np.float64) -> Trajectory:
    """Train `steps` steps of `global_batch` rows on one core; pathway takes about 10 ms a step.

    In float32 it says how far rounding alone leads from the oracle.
    """
    data = dataset.load(task)
    with threadpool_limits(1):
        return mlp.train(task, _batches(task, data, global_batch, steps), dtype)


def run_alone(
    task: Task, global_batch: int, steps: int, workers: int, alone: Alone, dtype: type[np.floating] = np.float64
) -> tuple[np.ndarray, list[State]]:
    """Train without exchange, on one core: the loss of every shard, (workers, steps), and all final states.

    There is a state for each worker, or one where there is one model. `dtype` as for `run_oracle`.
    """
    data = dataset.load(task)
    initial = {name: value.astype(dtype) for name, value in mlp.initial_weights(task).items()}
    states = [dict(initial) for _ in range(1 if alone is Alone.FIRST_PART else workers)]
    owners = owners_of(task, workers) if alone is Alone.OWN_PARAMETERS else {}
    factor = 1 / workers if alone in (Alone.OWN_PART, Alone.FIRST_PART) else 1.0
    losses = np.empty((workers, steps))
    with threadpool_limits(1):
        for step, batch in enumerate(_batches(task, data, global_batch, steps)):
            shards = list(zip(*(np.split(part, workers) for part in batch), strict=True))
            found = [
                mlp.loss_and_gradients(task, states[worker % len(states)], features.astype(dtype), labels)
                for worker, (features, labels) in enumerate(shards)
            ]
            losses[:, step] = [loss for loss, _, _ in found]
            for worker, state in enumerate(states):
                before = dict(state)
                gradients = {name: dtype(factor) * gradient for name, gradient in found[worker][1].items()}
                mlp.update(task, state, gradients, step)
                state |= {name: before[name] for name, owner in owners.items() if owner != worker}
    return losses, states


def deviation_alone(record: Record, task: Task, folder: Path, losses: np.ndarray, states: Sequence[State]) -> Deviation:
    """How far `record`, of a launch of `task` without exchange, is from what `run_alone` computed in as many steps.

    Its weights deviate infinitely where it hasn't kept those of every replica.
    """
    files = [record.checkpoint, *record.replica_checkpoints]
    weights = float("inf")
    if len(files) == len(states):
        kept = [final_weights(dataclasses.replace(record, checkpoint=file), folder) for file in files]
        names = mlp.parameter_names(task)
        pairs = [(found, {name: state[name] for name in names}) for found, state in zip(kept, states, strict=True)]
        weights = max(weight_deviation(found, expected) for found, expected in pairs)
    alike = len(record.shard_losses) == len(losses)
    return Deviation(
        loss=loss_deviation(record.losses, losses.mean(axis=0)),
        shard=max(map(loss_deviation, record.shard_losses, losses)) if alike else float("inf"),
        weights=weights,
        kink=None,
        examples=sum(record.examples_by_rank),
        expected_examples=record.examples_per_step * task.steps,
    )


def owners_of(task: Task, workers: int) -> dict[str, int]:
    """The worker that updates each parameter where optimizer states are divided by whole parameters.

    The largest comes first, and whoever has the least so far gets it: `_partition_parameters` of
    `ZeroRedundancyOptimizer`.
    """
    held, owners = [0] * workers, {}
    sizes = {name: value.size for name, value in mlp.initial_weights(task).items()}
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        owners[name] = held.index(min(held))
        held[owners[name]] += sizes[name]
    return owners


def certificate_task(task: Task, global_batches: list[int]) -> Task:
    """`task` with the first seed, counted from its own, whose oracle meets no kink at any of the global batches."""
    if task.activation != "relu":
        return task
    for seed in range(task.seed, task.seed + 100):
        candidate = dataclasses.replace(task, seed=seed)
        runs = [run_oracle(candidate, batch, candidate.steps) for batch in global_batches]
        if all(run.kink and run.kink.distance > KINK_DISTANCE for run in runs):
            return candidate
    raise RuntimeError(f"Every seed from {task.seed} on meets a kink within {task.steps} steps.")


def deviation(record: Record, task: Task, folder: Path, oracle: Trajectory) -> Deviation:
    """How far `record`, of a launch of `task` whose files are in `folder`, is from the oracle of its global batch.

    Raises ValueError when the oracle is too short: it must reach the tolerated steps, and all steps of a launch that
    kept its final weights.
    """
    needed = task.steps if record.checkpoint else min(task.steps, TOLERATED_STEPS)
    if len(oracle.losses) < needed:
        raise ValueError(f"The oracle has {len(oracle.losses)} steps, this launch needs {needed}.")
    last = max(TOLERATED_STEPS, record.first_step + 1)
    compared = slice(record.first_step, last)
    near = oracle.kink is not None and oracle.kink.distance <= KINK_DISTANCE
    return Deviation(
        loss=loss_deviation(record.losses[: last - record.first_step], oracle.losses[compared]),
        shard=_shard_deviation(record, oracle, compared),
        weights=_weight_deviation(record, task, folder, oracle),
        kink=oracle.kink if near else None,
        examples=sum(record.examples_by_rank),
        expected_examples=record.examples_per_step * (task.steps - record.first_step),
    )


def training_loss(task: Task, weights: mlp.State) -> float:
    """Mean cross-entropy of all training rows under these weights, in float64; not finite where the weights aren't."""
    data = dataset.load(task)
    exact = {name: weights[name].astype(np.float64) for name in mlp.parameter_names(task)}
    total = 0.0
    with threadpool_limits(1), np.errstate(all="ignore"):
        for start in range(0, len(data.train_labels), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            logits = mlp.forward(task, exact, data.train_features[part].astype(np.float64))[-1]
            total += mlp.row_losses(logits, data.train_labels[part]).sum()
    return float(total / len(data.train_labels))


def final_weights(record: Record, folder: Path) -> mlp.State:
    """The weights that the record names, from its `folder`, without the optimizer's state.

    Raises UserError when there are none that can be read.
    """
    try:
        state = load_file(folder / str(record.checkpoint))
    except (OSError, SafetensorError) as error:
        raise UserError(
            f"The final weights {folder / record.checkpoint} of {record.strategy} can't be read ({error}): "
            "delete its record and run its launch again."
        ) from error
    return {name: value for name, value in state.items() if not name.endswith(".momentum")}


def loss_deviation(losses: Sequence[float | None], oracle: Sequence[float]) -> float:
    """Largest relative deviation of a loss from the oracle's of the same step; infinite where a loss isn't finite.

    Compares the steps that both have. Raises ValueError when there are none.
    """
    steps = min(len(losses), len(oracle))
    if not steps:
        raise ValueError("There are no losses to compare.")
    # A loss that is None becomes NaN.
    ours, theirs = (np.array(values[:steps], np.float64) for values in (losses, oracle))
    with np.errstate(divide="ignore", invalid="ignore"):
        deviations = np.abs(ours - theirs) / np.abs(theirs)
    deviations[(ours == theirs) & np.isfinite(theirs)] = 0.0
    return float(np.nan_to_num(deviations, nan=np.inf, posinf=np.inf).max())


def weight_deviation(weights: Mapping[str, np.ndarray], oracle: Mapping[str, np.ndarray]) -> float:
    """Norm of the difference of all weights over the norm of the oracle's. Raises ValueError when the names differ."""
    if set(weights) != set(oracle):
        raise ValueError(f"The weights are {sorted(weights)}, the oracle's {sorted(oracle)}.")
    difference = sum(float(((weights[name] - oracle[name]) ** 2).sum()) for name in oracle)
    norm = sum(float((oracle[name] ** 2).sum()) for name in oracle)
    result = float(np.sqrt(difference / norm))
    return result if np.isfinite(result) else float("inf")


def _shard_deviation(record: Record, oracle: Trajectory, compared: slice) -> float | None:
    if not record.shard_losses:
        return None
    of_shards = oracle.shard_losses(record.shards)[:, compared].tolist()
    if record.shards == 1:
        # Whoever has a loss has it of the whole batch.
        of_shards *= len(record.shard_losses)
    if len(record.shard_losses) != len(of_shards):
        return float("inf")
    pairs = zip(record.shard_losses, of_shards, strict=True)
    return max(loss_deviation(ours[: len(theirs)], theirs) for ours, theirs in pairs)


def _weight_deviation(record: Record, task: Task, folder: Path, oracle: Trajectory) -> float | None:
    if record.checkpoint is None:
        return None
    names = mlp.parameter_names(task)
    return weight_deviation(final_weights(record, folder), {name: oracle.state[name] for name in names})


def _batches(
    task: Task, data: dataset.Dataset, global_batch: int, steps: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    order = rows.RowOrder(len(data.train_labels), task.seed)
    for step in range(steps):
        batch = rows.Batch(step, order.cut(step * global_batch, (step + 1) * global_batch), data)
        yield batch.features, batch.labels
