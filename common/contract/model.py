"""The contract, executable: the model that every strategy trains, as a tuple of layers, and its training, in NumPy.

The loss is the mean softmax cross-entropy over the global batch (which is the mean negative log-likelihood of a
log-softmax output), and over the positions of a text. Run in float64 it is the oracle that every synchronous strategy
must follow. Workers play no part here.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from common.contract import layers
from common.contract.layers import (
    Activation,
    Attention,
    BatchNorm,
    Convolution,
    Dense,
    Embedding,
    Layer,
    LayerNorm,
    Pool,
    Reshape,
    Residual,
    Shape,
)
from common.contract.task import Task
from common.errors import UserError

State = dict[str, np.ndarray]
"""Weights `layerN.weight` (inputs, outputs) and `layerN.bias` (outputs,), and others as their layers have them. With
momentum each has a buffer beside it, under the same name + `.momentum`."""

_HEADS = 4
"""Of a GPT's attention."""


def mlp(task: Task) -> tuple[Layer, ...]:
    """Dense layers with the activation between them."""
    return _dense_layers(task, task.dimensions)


def lenet(task: Task) -> tuple[Layer, ...]:
    """LeNet-5 (LeCun et al. 1998, figure 2), but for its connection table and its output by radial basis functions.

    The hidden `dimensions` are those of its dense layers.
    """
    act, side = Activation(task.activation), _side(task)
    pool = Pool("average")
    first = (Reshape((side, side, 1)), Convolution(1, 6, 5, 2, task.bias), act, pool)
    return _before_dense(task, (*first, Convolution(6, 16, 5, 0, task.bias), act, pool))


def fashion_cnn(task: Task) -> tuple[Layer, ...]:
    """Two convolutions with maximum pooling and dense layers, as tutorials on Fashion-MNIST have them.

    The hidden `dimensions` are those of its dense layers.
    """
    side, pool = _side(task), Pool("maximum")

    def normal(channels: int) -> tuple[Layer, ...]:
        norm = BatchNorm(channels, task.batch_norm == "synchronised")
        return (*([] if task.batch_norm == "none" else [norm]), Activation(task.activation))

    # Batch normalisation takes away what a bias before it adds.
    bias = task.bias and task.batch_norm == "none"
    first = (Reshape((side, side, 1)), Convolution(1, 32, 3, 1, bias), *normal(32), pool)
    return _before_dense(task, (*first, Convolution(32, 64, 3, 0, bias), *normal(64), pool))


def gpt(task: Task) -> tuple[Layer, ...]:
    """A decoder of blocks with layer normalisation before each part (Radford et al. 2019, section 2.3).

    `dimensions` are positions, the same width for each block, and tokens.
    """
    positions, *widths, tokens = task.dimensions
    if not widths or len(set(widths)) > 1:
        raise UserError(
            f"--dimensions {' '.join(map(str, task.dimensions))}: a gpt takes the positions, the same width once for "
            "each block, and the number of tokens, such as 32 64 64 96."
        )
    width, bias = widths[0], task.bias
    attention = (Dense(width, 3 * width, bias), Attention(_HEADS, width), Dense(width, width, bias))
    dense = (Dense(width, 4 * width, bias), Activation(task.activation), Dense(4 * width, width, bias))
    block = [Residual((LayerNorm(width), *part)) for part in (attention, dense)]
    return (Embedding(tokens, positions, width), *(block * len(widths)), LayerNorm(width), Dense(width, tokens, bias))


MODELS: dict[str, Callable[[Task], tuple[Layer, ...]]] = {
    "mlp": mlp,
    "lenet": lenet,
    "fashion_cnn": fashion_cnn,
    "gpt": gpt,
}


def _side(task: Task) -> int:
    """Height and width of a row's image. Raises UserError for a row that is no square."""
    side = math.isqrt(task.dimensions[0])
    if side**2 != task.dimensions[0]:
        raise UserError(
            f"--model {task.model} reads square images, and rows of {task.dimensions[0]} features are none: choose "
            "--preset mnist_lenet or mnist_cnn, or --model mlp."
        )
    return side


def _before_dense(task: Task, convolutional: tuple[Layer, ...]) -> tuple[Layer, ...]:
    image = layers.shape_after(convolutional, task.dimensions[:1])
    flat = math.prod(image)
    dense = _dense_layers(task, (flat, *task.dimensions[1:]), image)
    return (*convolutional, Reshape((flat,)), *dense)


def _dense_layers(task: Task, widths: Sequence[int], image: Shape = ()) -> tuple[Layer, ...]:
    dense = [
        Dense(inputs, outputs, task.bias, () if number else image)
        for number, (inputs, outputs) in enumerate(itertools.pairwise(widths))
    ]
    return (dense[0], *(each for layer in dense[1:] for each in (Activation(task.activation), layer)))


@cache
def named_layers(task: Task) -> dict[str, Layer]:
    """The model's layers, in order, by name. Raises UserError where they don't fit the data."""
    model = MODELS[task.model](task)
    layers.shape_after(model, task.dimensions[:1])
    return layers.numbered(model, "layer")


def layer_of(task: Task, parameter: str) -> Layer:
    """The layer, inside a residual one too, that has a parameter of this name, or whose momentum it is."""
    name, *numbers = parameter.removesuffix(".momentum").split(".")[:-1]
    layer = named_layers(task)[name]
    for number in numbers:
        assert isinstance(layer, Residual)
        layer = layer.inner[number]
    return layer


def check_kinds(task: Task, taken: frozenset[str], who: str, instead: str) -> None:
    """Raise UserError for a model with layers of other kinds, by the names of their classes, than are taken."""
    kinds = dict.fromkeys(type(layer).__name__ for layer in named_layers(task).values())
    if others := [kind for kind in kinds if kind not in taken]:
        raise UserError(
            f"{who} takes no layers of the kind {' or '.join(others)}, which --model {task.model} has: {instead}."
        )


def is_smooth(task: Task) -> bool:
    """Whether no slope jumps, so that float32 stays beside float64 from step to step."""
    return all(layer.is_smooth for layer in named_layers(task).values())


def operations(task: Task) -> int:
    """Multiplications and additions of matrix products, for one row of a step: forward and twice as many backward."""
    return 3 * layers.operations_of([*named_layers(task).values()], task.dimensions[:1])


def leaves(task: Task) -> list[tuple[Layer, Shape]]:
    """Layers with parameters, those inside residual ones too, in order, each with the shape of a row's inputs."""

    def walk(own: Iterable[Layer], shape: Shape) -> Iterator[tuple[Layer, Shape]]:
        for layer in own:
            if isinstance(layer, Residual):
                yield from walk(layer.layers, shape)
            elif layer.shapes:
                yield layer, shape
            shape = layer.output_shape(shape)

    return [*walk(named_layers(task).values(), task.dimensions[:1])]


@dataclass(frozen=True)
class Piece:
    """A layer with parameters and those without that follow it: what can be on a device of its own.

    The first has those before it as well.
    """

    modules: range
    """The positions of its layers in the model."""
    shapes: Mapping[str, Shape]
    """Of its parameters, by name."""
    operations: int
    """Of a row forward, as `Layer.operations` counts them."""
    input_shape: Shape
    """Of a row."""
    output_shape: Shape


def pieces(task: Task) -> list[Piece]:
    """The model's pieces, in order."""
    named = [*named_layers(task).items()]
    starts = [number for number, (_, layer) in enumerate(named) if layer.shapes]
    shape, cut = task.dimensions[:1], list[Piece]()
    for start, stop in itertools.pairwise((0, *starts[1:], len(named))):
        own = [layer for _, layer in named[start:stop]]
        shapes = {f"{name}.{kind}": each for name, layer in named[start:stop] for kind, each in layer.shapes.items()}
        after = layers.shape_after(own, shape)
        cut.append(Piece(range(start, stop), shapes, layers.operations_of(own, shape), shape, after))
        shape = after
    return cut


@cache
def parameter_shapes(task: Task) -> dict[str, Shape]:
    """The shape of each parameter, layer by layer, in the order in which every strategy keeps them."""
    named = named_layers(task).items()
    return {f"{name}.{kind}": shape for name, layer in named for kind, shape in layer.shapes.items()}


def parameter_names(task: Task) -> list[str]:
    """Names of all parameters, layer by layer, in the order in which every strategy keeps them."""
    return [*parameter_shapes(task)]


def parameter_bytes(task: Task) -> int:
    """Bytes of all parameters in float32; one worker's gradients are as large."""
    return 4 * sum(math.prod(shape) for shape in parameter_shapes(task).values())


def initial_weights(task: Task) -> State:
    """The initial weights in float32, the same for every strategy and world size, as each layer draws them."""
    generator = np.random.default_rng([task.seed, 0])
    drawn = layers.initial(named_layers(task), generator)
    return {name: value.astype(np.float32) for name, value in drawn.items()}


def learning_rate(task: Task, step: int) -> float:
    """The learning rate of step `step` (from 0): constant, or falling linearly to `final_learning_rate`.

    This is the closed form of PyTorch's optim.lr_scheduler.LinearLR.
    """
    if task.final_learning_rate is None:
        return task.learning_rate
    progress = min(step, task.decay_steps) / task.decay_steps
    return task.learning_rate + (task.final_learning_rate - task.learning_rate) * progress


def forward(task: Task, weights: Mapping[str, np.ndarray], features: np.ndarray) -> np.ndarray:
    """The logits, (rows, classes), of features, (rows, inputs); of texts (rows, positions, tokens)."""
    return layers.forward(named_layers(task), weights, features).outputs


@dataclass(frozen=True)
class Computed:
    """What a batch gives."""

    gradients: State
    row_losses: np.ndarray
    kink_distance: Callable[[], float]
    """The least distance of a value from a jump of a slope."""

    @property
    def loss(self) -> float:
        """The mean of the row losses."""
        return float(self.row_losses.mean())


def loss_and_gradients(
    task: Task, weights: Mapping[str, np.ndarray], features: np.ndarray, labels: np.ndarray, kink: float = 0.0
) -> Computed:
    """The mean cross-entropy of the rows, and its gradients by parameter name.

    `features` is (rows, inputs), `labels` (rows,) of class numbers, or (rows, positions) of tokens. A ReLU's slope is
    1 above the `kink`, and else 0.
    """
    passed = layers.forward(named_layers(task), weights, features, to_inputs=False)
    by_logits = np.exp(_log_probabilities(passed.outputs))
    chosen = labels[..., None]
    np.put_along_axis(by_logits, chosen, np.take_along_axis(by_logits, chosen, -1) - 1, -1)
    by_logits /= labels.size
    _, gradients = passed.backward(by_logits, kink)
    return Computed(gradients, row_losses(passed.outputs, labels), passed.kink_distance)


def row_losses(logits: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The softmax cross-entropy of every row, (rows,), of `logits` (rows, classes) and `labels` (rows,).

    Of texts, with a label at each position, it is the mean over the positions.
    """
    losses = -np.take_along_axis(_log_probabilities(logits), labels[..., None], -1)[..., 0]
    return losses if losses.ndim == 1 else losses.mean(axis=1)


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
    """The share of labels, from 0 to 1, whose logit is the largest."""
    return float((forward(task, weights, features).argmax(axis=-1) == labels).mean())


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
        computed = loss_and_gradients(task, state, features.astype(dtype), labels)
        update(task, state, computed.gradients, step)
        losses.append(computed.row_losses)
    return Trajectory(losses, state)


def _log_probabilities(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
