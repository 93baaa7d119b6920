"""The contract's model and SGD in JAX, on arrays in the contract's layout, and the devices that compute them."""

import importlib.util
import os
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from common.contract import model as contract
from common.contract.layers import (
    Activation,
    Attention,
    Convolution,
    Dense,
    Embedding,
    Layer,
    LayerNorm,
    Pool,
    Reshape,
    Residual,
    weights_of,
)
from common.contract.model import State, parameter_names
from common.contract.task import Task
from common.declarations.sweep import Sweep
from common.errors import UserError
from common.measurement import machine

WORKERS = "workers"
"""The axis of the mesh of all workers' devices."""

Arrays = dict[str, jax.Array]
"""Parameters by their names in the contract, or these and the momentum of each."""


def choose_devices(limits: Task | Sweep, replicas: int = 1, local_rank: int = 0, local_world_size: int = 1) -> str:
    """Have this process compute on so many devices, and return their name in the record.

    They are GPUs of its own where `--device` and the machine allow it, else devices of the CPU. Call it before JAX's
    first array, since the pool of threads is made then. Raises UserError where `--device` asks for more GPUs than there
    are.
    """
    jax.config.update("jax_enable_compilation_cache", False)
    jax.config.update("jax_default_matmul_precision", "highest")
    # Devices of one process meet in a collective, each in a thread that waits: with as many threads as devices that
    # hangs, since a thread that carries out something else is missing then.
    os.environ["PJRT_NPROC"] = str(limits.threads if replicas == 1 else 2 * replicas * limits.threads)
    has_cuda = any(importlib.util.find_spec(f"jax_cuda{version}_plugin") for version in (12, 13))
    gpus = len(machine.gpu_names()) if has_cuda else 0
    needed = replicas * local_world_size
    if limits.device == "gpu" and gpus < needed:
        raise UserError(
            f"--device gpu, but JAX sees {gpus} GPUs for {needed} workers: start fewer workers, install JAX with CUDA, "
            "or leave --device out."
        )
    if limits.device != "cpu" and gpus >= needed:
        own = range(local_rank * replicas, (local_rank + 1) * replicas)
        jax.config.update("jax_cuda_visible_devices", ",".join(map(str, own)))
        return machine.gpu_names()[own[0]]
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", replicas)
    return "cpu" if replicas == 1 else f"{replicas} devices of the CPU"


def state_names(task: Task) -> list[str]:
    """Names of all parameters, and of the momentum of each where the task has any."""
    names = parameter_names(task)
    return [*names, *(f"{name}.momentum" for name in names if task.momentum)]


def begin(task: Task, state: State) -> State:
    """The contract's weights, and its momentum or zeros where the task has any."""
    zeros = {f"{name}.momentum": np.zeros_like(state[name]) for name in parameter_names(task)}
    return {name: state.get(name, zeros.get(name)) for name in state_names(task)}


def parameters_of(task: Task, state: Mapping[str, jax.Array]) -> Arrays:
    """The parameters without their momentum."""
    return {name: state[name] for name in parameter_names(task)}


def forward(task: Task, parameters: Arrays, features: jax.Array) -> jax.Array:
    """Logits, (rows, classes), of features, (rows, inputs); of texts (rows, positions, tokens)."""
    return apply_all(contract.named_layers(task), parameters, features)


def apply_all(layers: Mapping[str, Layer], weights: Arrays, values: jax.Array) -> jax.Array:
    """The outputs of all layers, one after the other."""
    for name, layer in layers.items():
        values = apply_layer(layer, weights_of(name, weights), values)
    return values


def apply_layer(layer: Layer, weights: Arrays, values: jax.Array) -> jax.Array:
    """The outputs of a layer. Raises UserError for a kind that is missing here."""
    match layer:
        case Dense():
            values = values @ weights["weight"]
            return values + weights["bias"] if layer.bias else values
        case Convolution():
            values = convolve(layer, values, weights["weight"])
            return values + weights["bias"] if layer.bias else values
        case Pool(kind, size):
            window = (1, size, size, 1)
            if kind == "average":
                return lax.reduce_window(values, 0.0, lax.add, window, window, "VALID") / size**2
            return lax.reduce_window(values, -jnp.inf, lax.max, window, window, "VALID")
        case Reshape(shape):
            return values.reshape(-1, *shape)
        case Activation(kind):
            return {"relu": jax.nn.relu, "tanh": jnp.tanh, "gelu": jax.nn.gelu}[kind](values)
        case Embedding():
            return weights["weight"][values.astype(int)] + weights["position"]
        case LayerNorm():
            axes = layer.axes(values.ndim)
            centred = values - values.mean(axis=axes, keepdims=True)
            variance = (centred**2).mean(axis=axes, keepdims=True)
            return centred * lax.rsqrt(variance + layer.epsilon) * weights["weight"] + weights["bias"]
        case Attention():
            rows, positions, _ = values.shape
            query, key, value = jnp.moveaxis(values.reshape(rows, positions, 3, layer.heads, -1), 2, 0)
            attended = jax.nn.dot_product_attention(query, key, value, is_causal=True)
            return attended.reshape(rows, positions, layer.width)
        case Residual():
            return values + apply_all(layer.inner, weights, values)
    raise UserError(f"JAX has no {type(layer).__name__} layer here: add it to apply_layer in {__file__}.")


def convolve(layer: Convolution, images: jax.Array, kernel: jax.Array) -> jax.Array:
    """The convolution of images (rows, height, width, channels) with a kernel, without the bias."""
    edges, axes = [(layer.padding, layer.padding)] * 2, ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(images, kernel, (1, 1), edges, dimension_numbers=axes)


def row_losses(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """The cross-entropy of every row, (rows,); of a text its mean over the positions."""
    log_probabilities = jax.nn.log_softmax(logits)
    losses = -jnp.take_along_axis(log_probabilities, labels[..., None], axis=-1)[..., 0]
    return losses if losses.ndim == 1 else losses.mean(axis=1)


def mean_loss(task: Task, parameters: Arrays, features: jax.Array, labels: jax.Array) -> jax.Array:
    """The mean cross-entropy of the rows."""
    return row_losses(forward(task, parameters, features), labels).mean()


def update(task: Task, state: Arrays, gradients: Arrays, rate: jax.Array) -> Arrays:
    """The state after one step of SGD by torch's formula (`common.contract.model.update`)."""
    updated = {}
    for name, gradient in gradients.items():
        direction = gradient + task.weight_decay * state[name]
        if task.momentum:
            direction = task.momentum * state[f"{name}.momentum"] + direction
            updated[f"{name}.momentum"] = direction
        updated[name] = state[name] - rate * direction
    return updated


def learning_rate(task: Task, step: int) -> np.float32:
    """The step's learning rate, an argument of the compiled step: a Python number would compile the step anew."""
    return np.float32(contract.learning_rate(task, step))


def export_state(task: Task, state: Arrays, replica: int = 0) -> State:
    """The weights and the momentum that a device of this process has, as NumPy arrays in the contract's layout."""
    # Copies: the next step is computed in the memory of these arrays.
    return {name: np.array(state[name].addressable_shards[replica].data) for name in state_names(task)}


def held_bytes(task: Task, state: Arrays) -> dict[str, int]:
    """Bytes that this process holds of the parameters, their gradients and the optimizer's state.

    JAX keeps no gradients after a step. In a step each device makes gradients as large as its parameters.
    """
    sizes = {name: sum(shard.data.nbytes for shard in state[name].addressable_shards) for name in state_names(task)}
    parameters = sum(sizes[name] for name in parameter_names(task))
    held = {"parameters": parameters, "gradients": parameters, "optimizer_state": sum(sizes.values()) - parameters}
    # A CPU has no statistics of its memory.
    if statistics := jax.local_devices()[0].memory_stats():
        held["device_peak"] = statistics["peak_bytes_in_use"]
    return held


def synchronize() -> None:
    """Wait until the devices have computed every array that there is."""
    jax.block_until_ready([array for array in jax.live_arrays() if not array.is_deleted()])
