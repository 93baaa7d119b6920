"""Weights, optimizer state and step in one safetensors file, replaced atomically."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from common.contract.model import State
from common.contract.rows import Piece
from common.contract.task import MEASURED_FIELDS, Task
from common.errors import UserError
from common.files import write_atomically


@dataclass(frozen=True)
class Checkpoint:
    """The state of training after `step` steps, of `global_batch` rows each but for those of the earlier pieces."""

    state: State
    step: int
    global_batch: int
    earlier_pieces: Sequence[Piece] = ()

    def earlier_for(self, global_batch: int) -> Sequence[Piece]:
        """The pieces before training that goes on from here with global batches of this size."""
        steps = self.step - sum(piece.steps for piece in self.earlier_pieces)
        if global_batch == self.global_batch or not steps:
            return self.earlier_pieces
        return (*self.earlier_pieces, Piece(steps, self.global_batch))


def write_checkpoint(path: Path, checkpoint: Checkpoint, task: Task) -> None:
    """Write `path` whole or not at all. Raises UserError for a folder that can't be written to."""
    tensors = {name: np.ascontiguousarray(value) for name, value in checkpoint.state.items()}
    metadata = {
        "step": str(checkpoint.step),
        "global_batch": str(checkpoint.global_batch),
        "maths": _maths(task),
    }
    if checkpoint.earlier_pieces:
        metadata["earlier"] = json.dumps([asdict(piece) for piece in checkpoint.earlier_pieces])
    metadata["sha256"] = _digest(tensors, metadata)
    write_atomically(path, save(tensors, metadata))


def read_checkpoint(path: Path, task: Task, global_batch: int) -> Checkpoint:
    """The checkpoint in `path`.

    Raises UserError for a damaged file, and for one of a run with another maths or batch, or without steps left for
    `task`. Files that were written before there were digests have none.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = dict(file.metadata() or {})
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it isn't a dict)
        if metadata.pop("sha256", None) not in (None, _digest(state, metadata)):
            raise ValueError("its digest is of another content")
        earlier_pieces = [Piece(**piece) for piece in json.loads(metadata.get("earlier", "[]"))]
        checkpoint = Checkpoint(state, int(metadata["step"]), int(metadata["global_batch"]), earlier_pieces)
        checkpoint_maths = dict(json.loads(metadata["maths"]), global_batch=checkpoint.global_batch)
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} can't be read as a checkpoint ({error}): delete it or name another.") from error
    task_maths = dict(json.loads(_maths(task)), global_batch=global_batch)
    for name, value in task_maths.items():
        written = checkpoint_maths.get(name)
        if written != value:
            raise UserError(
                f"{path} was written with {name} {written}, not {value}: delete it, name another checkpoint, or use "
                "its settings."
            )
    if checkpoint.step + task.warmup_steps >= task.steps:
        raise UserError(
            f"{path} stands at step {checkpoint.step}, which leaves no step to measure before --steps {task.steps} "
            f"after a warm-up of {task.warmup_steps}: raise --steps or name another checkpoint."
        )
    return checkpoint


def _digest(state: State, metadata: Mapping[str, str]) -> str:
    """SHA-256 of the arrays, with their names, and of what is said about them."""
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(state):
        digest.update(f"{name} {state[name].dtype} {state[name].shape}".encode())
        digest.update(state[name].tobytes())
    return digest.hexdigest()


def _maths(task: Task) -> str:
    names = [each.name for each in fields(task) if each.name not in (*MEASURED_FIELDS, "data_dir")]
    return json.dumps({name: getattr(task, name) for name in names})
