"""The MLP and SGD in JAX, on arrays in the contract's layout `(inputs, outputs)`, and the devices that compute them."""

import importlib.util
import os
from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from common.contract import mlp as contract
from common.contract.mlp import State, parameter_names
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
    """Logits, (rows, classes), of features, (rows, inputs)."""
    activate = jax.nn.relu if task.activation == "relu" else jnp.tanh
    values = features
    for layer in range(len(task.dimensions) - 1):
        values = activate(values) if layer else values
        values = values @ parameters[f"layer{layer}.weight"]
        values = values + parameters[f"layer{layer}.bias"] if task.bias else values
    return values


def row_losses(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """The cross-entropy of every row, (rows,)."""
    log_probabilities = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(log_probabilities, labels[:, None], axis=1)[:, 0]


def mean_loss(task: Task, parameters: Arrays, features: jax.Array, labels: jax.Array) -> jax.Array:
    """The mean cross-entropy of the rows."""
    return row_losses(forward(task, parameters, features), labels).mean()


def update(task: Task, state: Arrays, gradients: Arrays, rate: jax.Array) -> Arrays:
    """The state after one step of SGD by torch's formula (`common.contract.mlp.update`)."""
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
