"""The oracle: the float64 NumPy run that every synchronous strategy must follow, and how far a record is from it."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file
from scipy.special import log_softmax
from threadpoolctl import threadpool_limits

from common import dataset, metrics, mlp
from common.config import Config
from common.errors import UserError
from common.mlp import KINK_DISTANCE, Kink, Trajectory
from common.record import Record

LOSS_TOLERANCE = 1e-5
"""Largest relative deviation of a loss that counts as following the oracle."""

WEIGHT_TOLERANCE = 5e-6
"""Largest deviation of the final weights, norm of the difference over the norm."""

TOLERATED_STEPS = 100
"""The tolerances hold over so many first steps."""

_ROWS_AT_ONCE = 2048


@dataclass(frozen=True)
class Deviation:
    """How far a launch is from the oracle."""

    loss: float
    """Largest relative deviation over the first `TOLERATED_STEPS` steps."""
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
        """Whether losses, weights and the count of the rows are all within the contract."""
        weights_follow = self.weights is None or self.weights <= WEIGHT_TOLERANCE
        return self.loss <= LOSS_TOLERANCE and weights_follow and self.examples == self.expected_examples


def run_oracle(config: Config, global_batch: int, steps: int) -> Trajectory:
    """Train `steps` steps of `global_batch` rows in float64 on one core; pathway takes about 10 ms a step."""
    rows = dataset.load(config)
    with threadpool_limits(1):
        return mlp.train(config, _batches(config, rows, global_batch, steps))


def certificate_config(config: Config, global_batches: list[int]) -> Config:
    """`config` with the first seed, counted from its own, whose oracle meets no kink at any of the global batches."""
    if config.activation != "relu":
        return config
    for seed in range(config.seed, config.seed + 100):
        candidate = dataclasses.replace(config, seed=seed)
        runs = [run_oracle(candidate, batch, candidate.steps) for batch in global_batches]
        if all(run.kink and run.kink.distance > KINK_DISTANCE for run in runs):
            return candidate
    raise RuntimeError(f"Every seed from {config.seed} on meets a kink within {config.steps} steps.")


def deviation(record: Record, config: Config, folder: Path, oracle: Trajectory) -> Deviation:
    """How far `record`, of a launch of `config` whose files are in `folder`, is from the oracle of its global batch.

    Raises ValueError when the oracle is too short: it must reach the tolerated steps, and all steps of a launch that
    kept its final weights.
    """
    needed = config.steps if record.checkpoint else min(config.steps, TOLERATED_STEPS)
    if len(oracle.losses) < needed:
        raise ValueError(f"The oracle has {len(oracle.losses)} steps, this launch needs {needed}.")
    last = max(TOLERATED_STEPS, record.first_step + 1)
    near = oracle.kink is not None and oracle.kink.distance <= KINK_DISTANCE
    return Deviation(
        loss=metrics.loss_deviation(record.losses[: last - record.first_step], oracle.losses[record.first_step : last]),
        weights=_weight_deviation(record, config, folder, oracle),
        kink=oracle.kink if near else None,
        examples=sum(record.examples_by_rank),
        expected_examples=record.examples_per_step * (config.steps - record.first_step),
    )


def training_loss(config: Config, weights: mlp.State) -> float:
    """Mean cross-entropy of all training rows under these weights, in float64; not finite where the weights aren't."""
    rows = dataset.load(config)
    exact = {name: weights[name].astype(np.float64) for name in mlp.parameter_names(config)}
    total = 0.0
    with threadpool_limits(1), np.errstate(all="ignore"):
        for start in range(0, len(rows.train_labels), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            logits = mlp.forward(config, exact, rows.train_features[part].astype(np.float64))[-1]
            labels = rows.train_labels[part]
            total -= log_softmax(logits, axis=1)[np.arange(len(labels)), labels].sum()
    return float(total / len(rows.train_labels))


def final_weights(record: Record, folder: Path) -> mlp.State:
    """The weights that the record names, from its `folder`, without the optimizer's state.

    Raises UserError when there are none that can be read.
    """
    try:
        state = load_file(folder / str(record.checkpoint))
    except (OSError, SafetensorError) as error:
        raise UserError(
            f"The final weights {folder / record.checkpoint} of {record.strategy} can't be read ({error}): "
            "delete its record and run its cell again."
        ) from error
    return {name: value for name, value in state.items() if not name.endswith(".momentum")}


def _weight_deviation(record: Record, config: Config, folder: Path, oracle: Trajectory) -> float | None:
    if record.checkpoint is None:
        return None
    names = mlp.parameter_names(config)
    return metrics.weight_deviation(final_weights(record, folder), {name: oracle.state[name] for name in names})


def _batches(
    config: Config, rows: dataset.Dataset, global_batch: int, steps: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    order = dataset.RowOrder(len(rows.train_labels), config.seed)
    for step in range(steps):
        batch = dataset.Batch(step, order.cut(step * global_batch, (step + 1) * global_batch), rows)
        yield batch.features, batch.labels
