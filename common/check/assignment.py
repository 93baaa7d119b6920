"""What a training of one's own needs of Lockstep, to be refereed by `nox -s check -- my_training.py`.

    from common.check import assignment

    assignment.load(model)                             # the initial weights
    sgd = assignment.options()                         # learning_rate, momentum, weight_decay
    for features, labels in assignment.batches():      # this worker's rows of each step
        ...                                            # your own forward, backward, exchange and update
        assignment.step(model, loss)                   # after each step: the weights, and this worker's mean loss

The rows of a step come when the step before has been reported. NumPy and the standard library only: it works beside any
framework.
"""

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Client
from typing import Any, NoReturn

import numpy as np

from common.errors import FAILED_STATUS, print_failure

SOCKET = "LOCKSTEP_ASSIGNMENT"
"""Environment variable with the name of the abstract socket (unix(7)) that hands out an assignment."""

ROWS, STEP = b"rows", b"step"
"""How a worker's messages begin; STEP is followed by the loss, float64, and the weights, float32."""


@dataclass(frozen=True)
class Assigned:
    """What a worker is to train: dense layers with a ReLU between, and the mean cross-entropy of the global batch."""

    rank: int
    workers: int
    """As many share each global batch; one process may hold them all."""
    addresses: list[str]
    """Of each process, `127.0.0.1:PORT` with a free port, by rank."""
    shapes: dict[str, tuple[int, ...]]
    """Of each parameter by name, (inputs, outputs) or (outputs,), in the order of the layers."""
    steps: int
    rows: int
    """Of this worker in each step."""
    learning_rate: float
    momentum: float
    """The velocity is this times the last one plus the gradient, and the step is the rate times it."""
    weight_decay: float
    """This times the weights is added to the gradient, before the momentum."""


@cache
def _connected() -> tuple[Any, Assigned, list[np.ndarray]]:
    """The connection to whoever hands out the assignment, what is assigned, and the initial weights."""
    if SOCKET not in os.environ:
        _refuse("an assignment is handed out by `nox -s check -- FILE`: start the file by that.")
    connection = Client(f"\0{os.environ[SOCKET]}", "AF_UNIX")
    fields = json.loads(connection.recv_bytes())
    assigned = Assigned(**fields | {"shapes": {name: tuple(shape) for name, shape in fields["shapes"].items()}})
    return connection, assigned, split(np.frombuffer(connection.recv_bytes(), np.float32), assigned.shapes)


def split(values: np.ndarray, shapes: Mapping[str, tuple[int, ...]]) -> list[np.ndarray]:
    """Cut all parameters' elements, (elements,), into arrays of these shapes."""
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
    parts = np.split(values, ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes.values(), strict=True)]


def options() -> Assigned:
    """Return what is to be trained: rank, number of workers, SGD's options, the parameters' shapes."""
    return _connected()[1]


def weights() -> dict[str, np.ndarray]:
    """Return the initial weights by parameter, float32 of (inputs, outputs) or (outputs,), in the order of the layers.

    torch's Linear has (outputs, inputs): transpose, or let `load` do it.
    """
    _, assigned, initial = _connected()
    return {name: value.copy() for name, value in zip(assigned.shapes, initial, strict=True)}


def load(model: object) -> None:
    """Put the initial weights into a torch module, into a dict or list of tensors, or into a list of `tf.Variable`s."""
    targets, initial = _parameters(model), weights()
    if len(targets) != len(initial):
        _refuse(f"the model has {len(targets)} parameters, and the assignment's network {len(initial)}.")
    for target, (name, value) in zip(targets, initial.items(), strict=True):
        fitting = value if tuple(target.shape) == value.shape else value.T
        if tuple(target.shape) != fitting.shape:
            _refuse(f"{name} is of {value.shape}, and the model's parameter in its place of {tuple(target.shape)}.")
        if hasattr(target, "assign"):
            target.assign(fitting)
        else:
            target.data.copy_(target.new_tensor(fitting))


def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield this worker's rows of each step: features, (rows, inputs) float32, and labels, (rows,) int64."""
    connection, assigned, _ = _connected()
    inputs = next(iter(assigned.shapes.values()))[0]
    for _ in range(assigned.steps):
        connection.send_bytes(ROWS)
        features = np.frombuffer(connection.recv_bytes(), np.float32).reshape(-1, inputs)
        yield features.copy(), np.frombuffer(connection.recv_bytes(), np.int64).copy()


def step(weights: object, loss: object) -> None:
    """Report a step: this worker's weights after it, and the mean loss of its rows before the update.

    `weights` is a torch module, a dict of arrays or tensors by the names of `weights()`, or a list in their order, such
    as of `tf.Variable`s. Matrices may be (inputs, outputs) or (outputs, inputs). Ends this process with one sentence
    where these are no weights of the assignment's network.
    """
    connection, assigned, _ = _connected()
    if isinstance(weights, Mapping) and {*assigned.shapes} <= {*weights}:
        weights = [weights[name] for name in assigned.shapes]
    values = [_array(value) for value in _parameters(weights)]
    if len(values) != len(assigned.shapes):
        _refuse(f"assignment.step got {len(values)} arrays of weights, and the network has {len(assigned.shapes)}.")
    arrays = []
    for value, (name, shape) in zip(values, assigned.shapes.items(), strict=True):
        fitting = value if value.shape == shape else value.T
        if fitting.shape != shape:
            _refuse(f"assignment.step got {name} of the shape {value.shape}, where {shape} belongs.")
        arrays.append(np.ascontiguousarray(fitting, np.float32).ravel())
    losses = np.asarray(_array(loss), np.float64).ravel()
    if len(losses) != 1:
        _refuse(f"assignment.step got {len(losses)} losses, where one belongs: the mean of this worker's rows.")
    connection.send_bytes(STEP + losses.tobytes() + np.concatenate(arrays).tobytes())


def _parameters(model: Any) -> list[Any]:  # noqa: ANN401 (no framework's types are known here)
    """The parameters of a model, a dict or a list, in their order."""
    if hasattr(model, "parameters"):
        return list(model.parameters())
    return list(model.values() if isinstance(model, Mapping) else model)


def _array(value: Any) -> np.ndarray:  # noqa: ANN401 (as above)
    """A tensor, a variable or a number as an array."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def _refuse(sentence: str) -> NoReturn:
    """End this process with a sentence."""
    print_failure(sentence)
    sys.exit(FAILED_STATUS)
