"""The contract, executable: the MLP that every strategy trains, in NumPy.

Weights are laid out `(inputs, outputs)`. The loss is the mean softmax cross-entropy over the global batch (which is the
mean negative log-likelihood of a log-softmax output). Run in float64 it is the oracle that every synchronous strategy
must follow. Workers play no part here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from common.contract.task import Task

State = dict[str, np.ndarray]
"""Weights `layerN.weight` (inputs, outputs) and `layerN.bias` (outputs,). With momentum each has a buffer beside it,
under the same name + `.momentum`."""


def parameter_names(task: Task) -> list[str]:
    """Names of all parameters, layer by layer, in the order in which every strategy keeps them."""
    kinds = ["weight", "bias"] if task.bias else ["weight"]
    return [f"layer{layer}.{kind}" for layer in range(len(task.dimensions) - 1) for kind in kinds]


def parameter_bytes(task: Task) -> int:
    """Bytes of all parameters in float32; one worker's gradients are as large."""
    pairs = zip(task.dimensions[:-1], task.dimensions[1:], strict=True)
    return 4 * sum(inputs * outputs + (outputs if task.bias else 0) for inputs, outputs in pairs)


def initial_weights(task: Task) -> State:
    """The contract's initial weights in float32, the same for every strategy and world size.

    Weights are Kaiming-uniform, U(-b, b) with b = sqrt(6 / inputs) (He et al. 2015, section 2.2, in its uniform form);
    biases are U(-b, b) with b = 1 / sqrt(inputs), as PyTorch's nn.Linear starts them.
    """
    generator = np.random.default_rng([task.seed, 0])
    weights: State = {}
    for layer, (inputs, outputs) in enumerate(zip(task.dimensions[:-1], task.dimensions[1:], strict=True)):
        bound = np.sqrt(6 / inputs)
        weights[f"layer{layer}.weight"] = generator.uniform(-bound, bound, (inputs, outputs)).astype(np.float32)
        if task.bias:
            bound = 1 / np.sqrt(inputs)
            weights[f"layer{layer}.bias"] = generator.uniform(-bound, bound, outputs).astype(np.float32)
    return weights


def learning_rate(task: Task, step: int) -> float:
    """The learning rate of step `step` (from 0): constant, or falling linearly to `final_learning_rate`.

    This is the closed form of PyTorch's optim.lr_scheduler.LinearLR.
    """
    if task.final_learning_rate is None:
        return task.learning_rate
    progress = min(step, task.decay_steps) / task.decay_steps
    return task.learning_rate + (task.final_learning_rate - task.learning_rate) * progress


def forward(task: Task, weights: Mapping[str, np.ndarray], features: np.ndarray) -> list[np.ndarray]:
    """The pre-activations of every layer, each (rows, outputs). The last layer's are the logits."""
    pre_activations = []
    values = features
    for layer in range(len(task.dimensions) - 1):
        if layer:
            values = _activate(task, pre_activations[-1])
        values = values @ weights[f"layer{layer}.weight"]
        pre_activations.append(values + weights[f"layer{layer}.bias"] if task.bias else values)
    return pre_activations


def loss_and_gradients(
    task: Task, weights: Mapping[str, np.ndarray], features: np.ndarray, labels: np.ndarray, kink: float = 0.0
) -> tuple[float, State, list[np.ndarray]]:
    """Mean cross-entropy of the rows, its gradients by parameter name, and the pre-activations.

    `features` is (rows, inputs), `labels` (rows,) of class numbers. A ReLU's slope is 1 above the `kink`, and else 0.
    Backpropagation as in Rumelhart et al. 1986.
    """
    pre_activations = forward(task, weights, features)
    rows, log_probabilities = np.arange(len(labels)), _log_probabilities(pre_activations[-1])
    loss = -log_probabilities[rows, labels].mean()

    delta = np.exp(log_probabilities)
    delta[rows, labels] -= 1
    delta /= len(labels)
    gradients: State = {}
    for layer in reversed(range(len(pre_activations))):
        inputs = _activate(task, pre_activations[layer - 1]) if layer else features
        gradients[f"layer{layer}.weight"] = inputs.T @ delta
        if task.bias:
            gradients[f"layer{layer}.bias"] = delta.sum(axis=0)
        if layer:
            delta = (delta @ weights[f"layer{layer}.weight"].T) * _slope(task, pre_activations[layer - 1], inputs, kink)
    return float(loss), gradients, pre_activations


def row_losses(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The softmax cross-entropy of every row, (rows,), of `logits` (rows, classes) and `labels` (rows,)."""
    return -_log_probabilities(logits)[np.arange(len(labels)), labels]


def update(task: Task, state: State, gradients: Mapping[str, np.ndarray], step: int) -> None:
    """Apply one step of SGD in place, by the formula of PyTorch's optim.SGD (dampening 0, no Nesterov).

    g <- g + weight_decay * w;  m <- g at first, then momentum * m + g;  w <- w - learning_rate(step) * m.
    """
    rate = learning_rate(task, step)
    for name in parameter_names(task):
        direction = gradients[name] + task.weight_decay * state[name]
        if task.momentum:
            buffer = f"{name}.momentum"
            direction = task.momentum * state[buffer] + direction if buffer in state else direction
            state[buffer] = direction
        state[name] = state[name] - np.asarray(rate, dtype=state[name].dtype) * direction


def accuracy(task: Task, weights: Mapping[str, np.ndarray], features: np.ndarray, labels: np.ndarray) -> float:
    """The share of rows, from 0 to 1, whose largest logit is their label's."""
    return float((forward(task, weights, features)[-1].argmax(axis=1) == labels).mean())


@dataclass(frozen=True)
class Trajectory:
    """The results of a run of the oracle."""

    row_losses: Sequence[np.ndarray] | np.ndarray
    """The loss of each row of every step, (steps, rows)."""
    state: State
    """The final one."""

    @cached_property
    def losses(self) -> list[float]:
        """The mean loss of every step's rows."""
        return np.mean(self.row_losses, axis=1).tolist() if len(self.row_losses) else []

    def shard_losses(self, shards: int) -> np.ndarray:
        """The loss of every step's shards, (shards, steps): means over equal, consecutive parts of the step's rows."""
        return np.reshape(self.row_losses, (len(self.row_losses), shards, -1)).mean(axis=2).T


def train(
    task: Task,
    batches: Iterable[tuple[np.ndarray, np.ndarray]],
    dtype: type[np.floating] = np.float64,
) -> Trajectory:
    """Train from the contract's initial weights on `batches` of (features, labels), everything in `dtype`."""
    state = {name: value.astype(dtype) for name, value in initial_weights(task).items()}
    losses: list[np.ndarray] = []
    for step, (features, labels) in enumerate(batches):
        _, gradients, pre_activations = loss_and_gradients(task, state, features.astype(dtype), labels)
        update(task, state, gradients, step)
        losses.append(row_losses(pre_activations[-1], labels))
    return Trajectory(losses, state)


def _log_probabilities(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def _activate(task: Task, values: np.ndarray) -> np.ndarray:
    return np.maximum(values, 0) if task.activation == "relu" else np.tanh(values)


def _slope(task: Task, values: np.ndarray, activated: np.ndarray, kink: float) -> np.ndarray:
    return (values > kink).astype(values.dtype) if task.activation == "relu" else 1 - activated**2
