"""The kinds of layers that a model is made of, each with its parameters, its cost, and its NumPy arithmetic.

Values are (rows, *shape), images (rows, height, width, channels), texts (rows, positions, width). Shapes and costs are
those of one row. Another kind of layer is one more class here, and one line in each framework's `model.py`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

import numpy as np

from common.errors import UserError

Shape = tuple[int, ...]
Arrays = dict[str, np.ndarray]
Weights = Mapping[str, np.ndarray]
Gradients = tuple[Callable[[], np.ndarray], Arrays]
"""A function that gives the gradient by the inputs, and the gradients by each parameter."""


@dataclass(frozen=True)
class Passed:
    """What a layer made of a batch."""

    outputs: np.ndarray
    backward: Callable[[np.ndarray, float], Gradients]
    """Of the gradient by the outputs, and of a kink: a slope that jumps where a value is 0 jumps there instead."""
    kink_distance: Callable[[], float] = lambda: math.inf
    """The least distance of a value from a jump of the slope. Finding it takes time, which few need."""


@dataclass(frozen=True)
class Layer:
    """A layer without parameters that keeps the shape of its values and costs nothing; other kinds say what differs."""

    @property
    def is_smooth(self) -> bool:
        """Whether its slope has no jump. At a jump float32 and float64 can part for good."""
        return True

    @property
    def shapes(self) -> dict[str, Shape]:
        """The shape of each parameter, by name, in the order in which every strategy keeps them."""
        return {}

    def initial(self, generator: np.random.Generator) -> Arrays:
        """The initial parameters, drawn in the order of `shapes`.

        Weights are Kaiming-uniform, U(-b, b) with b = sqrt(6 / inputs) (He et al. 2015, section 2.2, in its uniform
        form). Biases are U(-b, b) with b = 1 / sqrt(inputs), as PyTorch's layers start them.
        """
        inputs = math.prod(self.shapes.get("weight", ())[:-1])
        bounds = {"weight": np.sqrt(6 / inputs), "bias": 1 / np.sqrt(inputs)}
        return {name: generator.uniform(-bounds[name], bounds[name], shape) for name, shape in self.shapes.items()}

    def output_shape(self, shape: Shape) -> Shape:
        """The shape of a row's outputs. Raises UserError for inputs of a shape that the layer can't take."""
        return shape

    def operations(self, shape: Shape) -> int:
        """Multiplications and additions of matrix products, for one row forward. Backward takes twice as many."""
        return 0

    def forward(self, weights: Weights, values: np.ndarray) -> Passed:
        """What the layer makes of a batch."""
        raise NotImplementedError


@dataclass(frozen=True)
class Dense(Layer):
    """A matrix product along the last axis, and a bias."""

    inputs: int
    outputs: int
    bias: bool = True
    image: Shape = ()
    """Where the inputs are a flattened image, its (height, width, channels)."""

    @property
    def shapes(self) -> dict[str, Shape]:
        """A weight (inputs, outputs) and a bias (outputs,)."""
        return {"weight": (self.inputs, self.outputs)} | ({"bias": (self.outputs,)} if self.bias else {})

    def output_shape(self, shape: Shape) -> Shape:
        """(*positions, outputs)."""
        return (*shape[:-1], self.outputs)

    def operations(self, shape: Shape) -> int:
        """Two for each weight and position."""
        return 2 * math.prod(shape) * self.outputs

    def forward(self, weights: Weights, values: np.ndarray) -> Passed:
        """x W + b; backward g W^T, x^T g and the sum of g (Rumelhart et al. 1986)."""
        outputs = values @ weights["weight"]

        def backward(gradient: np.ndarray, _kink: float) -> Gradients:
            flat = gradient.reshape(-1, self.outputs)
            gradients = {"weight": values.reshape(-1, self.inputs).T @ flat}
            if self.bias:
                gradients["bias"] = flat.sum(axis=0)
            return lambda: gradient @ weights["weight"].T, gradients

        return Passed(outputs + weights["bias"] if self.bias else outputs, backward)


@dataclass(frozen=True)
class Convolution(Layer):
    """A convolution with a square kernel and stride 1, and a bias (LeCun et al. 1998, section II)."""

    inputs: int
    """Channels of the image that it reads."""
    outputs: int
    """Channels of the image that it makes."""
    size: int
    """Height and width of the kernel."""
    padding: int = 0
    """Zeros around the image: none, or as many as keep its size, which all frameworks have."""
    bias: bool = True

    @property
    def shapes(self) -> dict[str, Shape]:
        """A weight (size, size, inputs, outputs) and a bias (outputs,)."""
        weight = {"weight": (self.size, self.size, self.inputs, self.outputs)}
        return weight | ({"bias": (self.outputs,)} if self.bias else {})

    def output_shape(self, shape: Shape) -> Shape:
        """(height, width, outputs)."""
        height, width = (edge + 2 * self.padding - self.size + 1 for edge in shape[:2])
        if shape[2] != self.inputs or min(height, width) < 1:
            raise UserError(
                f"A convolution of {self.size} x {self.size} and {self.inputs} channels can't read values of the shape "
                f"{shape}: choose a --model for these data, or --preset mnist_lenet or mnist_cnn."
            )
        return height, width, self.outputs

    def operations(self, shape: Shape) -> int:
        """Two for each weight and pixel of the output."""
        return 2 * math.prod(self.output_shape(shape)) * self.size**2 * self.inputs

    def forward(self, weights: Weights, values: np.ndarray) -> Passed:
        """A matrix product of every kernel-sized part of the image with the kernel.

        Backward the gradients of the parts are added up where they overlap.
        """
        edges = (self.padding, self.padding)
        padded = np.pad(values, ((0, 0), edges, edges, (0, 0)))
        parts = np.lib.stride_tricks.sliding_window_view(padded, (self.size, self.size), axis=(1, 2))
        rows, height, width = parts.shape[:3]
        columns = parts.transpose(0, 1, 2, 4, 5, 3).reshape(rows * height * width, -1)
        kernel = weights["weight"].reshape(-1, self.outputs)
        outputs = columns @ kernel + weights["bias"] if self.bias else columns @ kernel

        def backward(gradient: np.ndarray, _kink: float) -> Gradients:
            flat = gradient.reshape(-1, self.outputs)
            gradients = {"weight": (columns.T @ flat).reshape(self.shapes["weight"])}
            if self.bias:
                gradients["bias"] = flat.sum(axis=0)

            def by_inputs() -> np.ndarray:
                by_parts = (flat @ kernel.T).reshape(rows, height, width, self.size, self.size, self.inputs)
                by_padded = np.zeros(padded.shape, gradient.dtype)
                for top in range(self.size):
                    for left in range(self.size):
                        by_padded[:, top : top + height, left : left + width] += by_parts[:, :, :, top, left]
                inside = slice(self.padding, -self.padding or None)
                return by_padded[:, inside, inside]

            return by_inputs, gradients

        return Passed(outputs.reshape(rows, height, width, self.outputs), backward)


@dataclass(frozen=True)
class Pool(Layer):
    """The average or the maximum of every square of pixels, channel by channel."""

    kind: Literal["average", "maximum"]
    size: int = 2

    @property
    def is_smooth(self) -> bool:
        """Whether it is an average."""
        return self.kind == "average"

    def output_shape(self, shape: Shape) -> Shape:
        """(height / size, width / size, channels)."""
        if shape[0] % self.size or shape[1] % self.size:
            raise UserError(
                f"Squares of {self.size} x {self.size} pixels don't divide values of the shape {shape}: choose a "
                "--model for these data, or --preset mnist_lenet or mnist_cnn."
            )
        return shape[0] // self.size, shape[1] // self.size, shape[2]

    def forward(self, weights: Weights, values: np.ndarray) -> Passed:
        """The average or the maximum of each square; backward an equal part for each pixel, or all for the first
        largest one. With a kink above 0, all for the last one that is no more than the kink below it."""
        rows, height, width, channels = values.shape
        across = (rows, height // self.size, self.size, width // self.size, self.size, channels)
        squares = values.reshape(across).transpose(0, 1, 3, 5, 2, 4)
        squares = squares.reshape(*squares.shape[:4], self.size**2)

        def backward(gradient: np.ndarray, kink: float) -> Gradients:
            parts = np.zeros_like(squares)
            if self.is_smooth:
                parts += (gradient / self.size**2)[..., None]
            else:
                nearly = squares >= squares.max(axis=-1, keepdims=True) - max(kink, 0.0)
                last = self.size**2 - 1 - nearly[..., ::-1].argmax(axis=-1)
                chosen = last if kink > 0 else nearly.argmax(axis=-1)
                np.put_along_axis(parts, chosen[..., None], gradient[..., None], axis=-1)
            across = (*parts.shape[:4], self.size, self.size)
            return lambda: parts.reshape(across).transpose(0, 1, 4, 2, 5, 3).reshape(values.shape), {}

        if self.is_smooth:
            return Passed(squares.mean(axis=-1), backward)

        def kink_distance() -> float:
            return float(np.diff(np.partition(squares, -2, axis=-1)[..., -2:], axis=-1).min())

        return Passed(squares.max(axis=-1), backward, kink_distance)


@dataclass(frozen=True)
class Reshape(Layer):
    """The same values in another shape: an image of a row of pixels, or a flat row of an image."""

    shape: Shape

    def output_shape(self, shape: Shape) -> Shape:
        """The shape that it was given."""
        return self.shape

    def forward(self, weights: Weights, values: np.ndarray) -> Passed:
        """The values in the new shape."""
        outputs = values.reshape(len(values), *self.shape)
        return Passed(outputs, lambda gradient, _kink: (lambda: gradient.reshape(values.shape), {}))


@dataclass(frozen=True)
class Activation(Layer):
    """ReLU, tanh, or GELU in its approximation by tanh (Hendrycks & Gimpel 2016, section 2)."""

    kind: Literal["relu", "tanh", "gelu"]

    @property
    def is_smooth(self) -> bool:
        """Whether it isn't a ReLU."""
        return self.kind != "relu"

    def forward(self, weights: Weights, values: np.ndarray) -> Passed:
        """The function of every value; backward the gradient times the slope. A ReLU's is 1 above the kink, else 0."""
        if self.kind == "relu":
            return Passed(
                np.maximum(values, 0),
                lambda gradient, kink: (lambda: gradient * (values > kink).astype(values.dtype), {}),
                lambda: float(np.abs(values).min()),
            )
        if self.kind == "tanh":
            outputs = np.tanh(values)
            slope = 1 - outputs**2
        else:
            bent = np.tanh(_GELU_SCALE * (values + _GELU_CUBIC * values**3))
            outputs = 0.5 * values * (1 + bent)
            slope = 0.5 * (1 + bent + values * (1 - bent**2) * _GELU_SCALE * (1 + 3 * _GELU_CUBIC * values**2))
        return Passed(outputs, lambda gradient, _kink: (lambda: gradient * slope, {}))


_GELU_SCALE, _GELU_CUBIC = math.sqrt(2 / math.pi), 0.044715


@dataclass(frozen=True)
class Embedding(Layer):
    """A learned vector for each token, and one for each position (Radford et al. 2018, section 3.1).

    Tokens come as whole numbers in floating point, as all features do.
    """

    tokens: int
    """How many there are."""
    positions: int
    width: int

    @property
    def shapes(self) -> dict[str, Shape]:
        """A weight (tokens, width) and a position (positions, width)."""
        return {"weight": (self.tokens, self.width), "position": (self.positions, self.width)}

    def initial(self, generator: np.random.Generator) -> Arrays:
        """Normal, with a deviation of 1 / sqrt(2): the sum of both has a variance of 1."""
        return {name: generator.normal(0.0, math.sqrt(0.5), shape) for name, shape in self.shapes.items()}

    def output_shape(self, shape: Shape) -> Shape:
        """(positions, width)."""
        return self.positions, self.width

    def forward(self, weights: Weights, values: np.ndarray) -> Passed:
        """The token's vector plus the position's; tokens have no gradient, so 0 stands for it."""
        tokens = values.astype(np.int64)

        def backward(gradient: np.ndarray, _kink: float) -> Gradients:
            by_token = np.zeros(self.shapes["weight"], gradient.dtype)
            np.add.at(by_token, tokens, gradient)
            return lambda: np.zeros_like(values), {"weight": by_token, "position": gradient.sum(axis=0)}

        return Passed(weights["weight"][tokens] + weights["position"], backward)


@dataclass(frozen=True)
class LayerNorm(Layer):
    """Values with mean 0 and variance 1 along the last axis, scaled and shifted (Ba et al. 2016, equation 4)."""

    width: int
    epsilon: ClassVar[float] = 1e-5

    @property
    def shapes(self) -> dict[str, Shape]:
        """A weight (width,) and a bias (width,)."""
        return {"weight": (self.width,), "bias": (self.width,)}

    def initial(self, generator: np.random.Generator) -> Arrays:
        """Weights of 1, biases of 0."""
        return {"weight": np.ones(self.width), "bias": np.zeros(self.width)}

    def forward(self, weights: Weights, values: np.ndarray) -> Passed:
        """(x - mean) / sqrt(variance + epsilon), times the weight, plus the bias.

        Backward the gradient loses its mean and its part along the normal values, and is divided by the deviation.
        """
        axes = self.axes(values.ndim)
        centred = values - values.mean(axis=axes, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=axes, keepdims=True) + self.epsilon)
        normal = centred / deviation

        def backward(gradient: np.ndarray, _kink: float) -> Gradients:
            positions = tuple(range(gradient.ndim - 1))
            gradients = {"weight": (gradient * normal).sum(axis=positions), "bias": gradient.sum(axis=positions)}
            scaled = gradient * weights["weight"]
            along = (scaled * normal).mean(axis=axes, keepdims=True)
            return lambda: (scaled - scaled.mean(axis=axes, keepdims=True) - normal * along) / deviation, gradients

        return Passed(normal * weights["weight"] + weights["bias"], backward)

    def axes(self, dimensions: int) -> tuple[int, ...]:
        """The axes over which mean and variance are taken, of values with so many dimensions."""
        return (dimensions - 1,)


@dataclass(frozen=True)
class BatchNorm(LayerNorm):
    """The same over all rows and pixels of a batch, channel by channel (Ioffe & Szegedy 2015, algorithm 1).

    There are no running means: a test takes mean and variance of all rows that it is given.
    """

    synchronised: bool = False
    """Whether the batch is the global one; else each worker's own part of it."""

    def axes(self, dimensions: int) -> tuple[int, ...]:
        """All but the channels."""
        return tuple(range(dimensions - 1))


@dataclass(frozen=True)
class Attention(Layer):
    """Causal attention of several heads (Vaswani et al. 2017, section 3.2), without projections: dense layers do them.

    Inputs are (positions, 3 * width): queries, keys and values, each of them head after head.
    """

    heads: int
    width: int

    def __post_init__(self) -> None:
        """Raise UserError for a width that the heads don't divide."""
        if self.width % self.heads:
            raise UserError(
                f"A width of {self.width} doesn't divide into {self.heads} heads: give --dimensions a multiple of it."
            )

    def output_shape(self, shape: Shape) -> Shape:
        """(positions, width)."""
        return shape[0], self.width

    def operations(self, shape: Shape) -> int:
        """Two products of positions x positions and each head's width."""
        return 4 * shape[0] ** 2 * self.width

    def forward(self, weights: Weights, values: np.ndarray) -> Passed:
        """softmax(q k^T / sqrt(width of a head)) v, where no position sees a later one."""
        rows, positions, _ = values.shape
        query, key, value = values.reshape(rows, positions, 3, self.heads, -1).transpose(2, 0, 3, 1, 4)
        scale = 1 / math.sqrt(self.width // self.heads)
        scores = np.where(np.tri(positions, dtype=bool), query @ key.swapaxes(-1, -2) * scale, -np.inf)
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)

        def backward(gradient: np.ndarray, _kink: float) -> Gradients:
            by_head = gradient.reshape(rows, positions, self.heads, -1).swapaxes(1, 2)
            by_shares = by_head @ value.swapaxes(-1, -2)
            by_scores = shares * (by_shares - (by_shares * shares).sum(axis=-1, keepdims=True)) * scale
            by_parts = by_scores @ key, by_scores.swapaxes(-1, -2) @ query, shares.swapaxes(-1, -2) @ by_head
            return lambda: np.stack(by_parts).transpose(1, 3, 0, 2, 4).reshape(values.shape), {}

        return Passed((shares @ value).swapaxes(1, 2).reshape(rows, positions, self.width), backward)


@dataclass(frozen=True)
class Residual(Layer):
    """Layers whose outputs are added to their inputs, and have their shape (He et al. 2016, equation 1)."""

    layers: tuple[Layer, ...]

    @cached_property
    def inner(self) -> dict[str, Layer]:
        """The layers by the numbers in their parameters' names."""
        return numbered(self.layers)

    @property
    def is_smooth(self) -> bool:
        """Whether all of its layers are."""
        return all(layer.is_smooth for layer in self.layers)

    @property
    def shapes(self) -> dict[str, Shape]:
        """Those of its layers, each under the layer's number."""
        return {f"{name}.{kind}": shape for name, layer in self.inner.items() for kind, shape in layer.shapes.items()}

    def initial(self, generator: np.random.Generator) -> Arrays:
        """Those of its layers."""
        return initial(self.inner, generator)

    def operations(self, shape: Shape) -> int:
        """Those of its layers."""
        return operations_of(self.layers, shape)

    def forward(self, weights: Weights, values: np.ndarray) -> Passed:
        """The inputs plus what the layers make of them; backward the gradient plus what they make of it."""
        passed = forward(self.inner, weights, values)

        def backward(gradient: np.ndarray, kink: float) -> Gradients:
            by_inputs, gradients = passed.backward(gradient, kink)
            return lambda: gradient + by_inputs(), gradients

        return Passed(values + passed.outputs, backward, passed.kink_distance)


def numbered(layers: Sequence[Layer], prefix: str = "") -> dict[str, Layer]:
    """The layers, in order, by name: the prefix and a number, counted over layers with parameters.

    A layer without parameters has the name of the last one with some, and primes.
    """
    names = dict[str, Layer]()
    number, primes = -1, ""
    for layer in layers:
        number, primes = (number + 1, "") if layer.shapes else (number, primes + "'")
        names[f"{prefix}{number}{primes}"] = layer
    return names


def weights_of(name: str, weights: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of one layer by their own names, of those of a whole model."""
    return {key[len(name) + 1 :]: value for key, value in weights.items() if key.startswith(f"{name}.")}


def initial(layers: Mapping[str, Layer], generator: np.random.Generator) -> Arrays:
    """The initial parameters of all layers, each under the layer's name."""
    drawn = {name: layer.initial(generator) for name, layer in layers.items() if layer.shapes}
    return {f"{name}.{kind}": value for name, values in drawn.items() for kind, value in values.items()}


def shape_after(layers: Sequence[Layer], shape: Shape) -> Shape:
    """The shape of a row after all layers. Raises UserError where they don't fit."""
    for layer in layers:
        shape = layer.output_shape(shape)
    return shape


def operations_of(layers: Sequence[Layer], shape: Shape) -> int:
    """Multiplications and additions of a row, forward."""
    total = 0
    for layer in layers:
        total += layer.operations(shape)
        shape = layer.output_shape(shape)
    return total


def forward(layers: Mapping[str, Layer], weights: Weights, values: np.ndarray, to_inputs: bool = True) -> Passed:
    """What all layers make of a batch, one after the other.

    Without `to_inputs` the way back ends at the first layer with parameters.
    """
    passes = dict[str, Passed]()
    for name, layer in layers.items():
        passes[name] = layer.forward(weights_of(name, weights), values)
        values = passes[name].outputs
    # Nobody needs the gradient by the inputs of the first layer with parameters, nor what is before it.
    first = next(name for name, layer in layers.items() if layer.shapes)

    def backward(gradient: np.ndarray, kink: float) -> Gradients:
        gradients = list[Arrays]()
        by_inputs = partial(np.asarray, gradient)
        for name, passed in reversed([*passes.items()]):
            by_inputs, own = passed.backward(by_inputs(), kink)
            gradients.append({f"{name}.{kind}": value for kind, value in own.items()})
            if name == first and not to_inputs:
                break
        return by_inputs, {name: value for own in reversed(gradients) for name, value in own.items()}

    return Passed(values, backward, lambda: min(passed.kink_distance() for passed in passes.values()))
