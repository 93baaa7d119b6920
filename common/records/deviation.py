"""How far a record is from the oracle of its maths."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from msgspec import structs
from safetensors import SafetensorError
from safetensors.numpy import load_file

from common.contract import mlp
from common.contract.mlp import Kink, Trajectory
from common.contract.oracle import LOSS_TOLERANCE, Deviation, loss_deviations, weight_deviation
from common.contract.task import Task
from common.errors import UserError
from common.records.training import Record


def deviation_alone(record: Record, task: Task, folder: Path, oracle: Trajectory) -> Deviation:
    """How far `record`, of a launch of `task` without exchange, is from what `run_alone` computed in as many steps.

    Its weights deviate infinitely where it has kept some, but not those of every replica.
    """
    weights = None
    files = [record.checkpoint, *record.replica_checkpoints]
    if record.checkpoint:
        weights = float("inf")
    if record.checkpoint and len(files) == len(oracle.states):
        kept = [final_weights(structs.replace(record, checkpoint=file), folder) for file in files]
        names = mlp.parameter_names(task)
        expected = [{name: state[name] for name in names} for state in oracle.states]
        weights = max(map(weight_deviation, kept, expected))
    losses = oracle.shard_losses(record.world_size)
    return _deviation(record, task, losses.mean(axis=0), losses, weights, oracle.kinks)


def deviation(record: Record, task: Task, folder: Path, oracle: Trajectory) -> Deviation:
    """How far `record`, of a launch of `task` whose files are in `folder`, is from the oracle of its global batch.

    Raises ValueError when the oracle has fewer steps than the task.
    """
    if len(oracle.row_losses) < task.steps:
        raise ValueError(f"The oracle has {len(oracle.row_losses)} steps, this launch needs {task.steps}.")
    steps = slice(record.first_step, task.steps)
    if record.examples_per_step % record.shards:
        shard_losses = np.empty((0, 0))
    else:
        shard_losses = oracle.shard_losses(record.shards)[:, steps]
    if record.shards == 1:
        # Every reported loss is of the whole batch.
        shard_losses = np.repeat(shard_losses, max(1, len(record.shard_losses)), axis=0)
    weights = None
    if record.checkpoint is not None:
        final = final_weights(record, folder)
        weights = weight_deviation(final, {name: oracle.state[name] for name in mlp.parameter_names(task)})
    return _deviation(record, task, np.array(oracle.losses[steps]), shard_losses, weights, oracle.kinks)


def final_weights(record: Record, folder: Path) -> mlp.State:
    """The weights that the record names, from its `folder`, without the optimizer's state.

    Raises UserError when there are none that can be read.
    """
    path = folder / str(record.checkpoint)
    try:
        state = load_file(path)
    except (OSError, SafetensorError) as error:
        raise UserError(
            f"The final weights {path} of {record.strategy} can't be read ({error}): "
            "delete its record and run its launch again."
        ) from error
    return {name: value for name, value in state.items() if not name.endswith(".momentum")}


def _deviation(
    record: Record,
    task: Task,
    losses: np.ndarray,
    shard_losses: np.ndarray,
    weights: float | None,
    kinks: Sequence[Kink],
) -> Deviation:
    """How far the record is from these losses, (steps,) and (shards, steps), of its own steps."""
    of_batch = loss_deviations(record.losses, losses)
    if shard_losses.size and len(record.shard_losses) == len(shard_losses):
        of_shards = np.max([*map(loss_deviations, record.shard_losses, shard_losses)], axis=0)
    else:
        of_shards = np.full(len(of_batch), np.inf)
    left = np.flatnonzero(np.maximum(of_batch, of_shards) > LOSS_TOLERANCE)
    return Deviation(
        loss=float(of_batch.max(initial=0.0)),
        shard=float(of_shards.max(initial=0.0)),
        weights=weights,
        left_at=record.first_step + int(left[0]) if left.size else None,
        kink=next((kink for kink in kinks if kink.is_near), None),
        examples=sum(record.examples_by_rank),
        expected_examples=record.examples_per_step * (task.steps - record.first_step),
    )
