"""The bare jitted loops that JAX's strategies are measured against: a tutorial's, with no harness."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from common.contract import model
from common.contract.task import Task
from common.measurement.run import Run
from tests.benchmarks import paired


def loss_of(task: Task, parameters: list[jax.Array], features: jax.Array, labels: jax.Array) -> jax.Array:
    """The mean cross-entropy of the rows, as anybody would write it."""
    activate = jax.nn.relu if task.activation == "relu" else jnp.tanh
    values = features
    if task.model == "fashion_cnn":
        values = values.reshape(-1, 28, 28, 1)
        for padding in ("SAME", "VALID"):
            kernel, bias, *parameters = parameters
            axes = ("NHWC", "HWIO", "NHWC")
            values = jax.nn.relu(
                lax.conv_general_dilated(values, kernel, (1, 1), padding, dimension_numbers=axes) + bias
            )
            values = lax.reduce_window(values, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        values = values.reshape(-1, 2304)
    for position in range(0, len(parameters), 2 if task.bias else 1):
        values = activate(values) if position else values
        values = values @ parameters[position]
        values = values + parameters[position + 1] if task.bias else values
    return -jnp.mean(jax.nn.log_softmax(values)[jnp.arange(len(labels)), labels])


def make_window(run: Run, distributed: bool = False) -> paired.BareWindow:
    """A function that trains one step on each of the given arrays of rows, with the data on the devices.

    Where it is distributed, that is a `shard_map` over all devices, one of each process.
    """
    task, mesh = run.task, Mesh(np.array(jax.devices()), ("workers",))
    whole, parts, device = NamedSharding(mesh, P()), NamedSharding(mesh, P("workers")), mesh.local_devices[0]
    place = partial(jax.make_array_from_process_local_data, whole) if distributed else jax.device_put
    parameters = [place(np.array(value)) for value in model.initial_weights(task).values()]
    train_set = place(run.dataset.train_features), place(run.dataset.train_labels)

    def place_rows(rows: np.ndarray) -> object:
        if not distributed:
            return rows
        local = [jax.device_put(rows.astype(np.int32), device)]
        return jax.make_array_from_single_device_arrays((mesh.size * len(rows),), parts, local)

    def train_step(parameters: list[jax.Array], rows: jax.Array, rate: jax.Array, *train_set: jax.Array) -> tuple:
        features, labels = (array[rows] for array in train_set)
        loss, gradients = jax.value_and_grad(partial(loss_of, task))(parameters, features, labels)
        if distributed:
            gradients = lax.pmean(gradients, "workers")
        pairs = zip(parameters, gradients, strict=True)
        return [parameter - rate * gradient for parameter, gradient in pairs], loss[None]

    if distributed:
        specs = {"in_specs": (P(), P("workers"), P(), P(), P()), "out_specs": (P(), P("workers"))}
        train_step = jax.shard_map(train_step, mesh=mesh, check_vma=False, **specs)
    step = jax.jit(train_step, donate_argnums=0)

    def window(rows_of_steps: list[np.ndarray]) -> None:
        nonlocal parameters
        for position, rows in enumerate(rows_of_steps):
            rate = np.float32(model.learning_rate(task, position))
            parameters, _ = step(parameters, place_rows(rows), rate, *train_set)
        jax.block_until_ready(parameters)

    return window


if __name__ == "__main__":
    paired.main(jax_single=make_window, jax_data_parallel=partial(make_window, distributed=True))
