"""The bare jitted loops that JAX's strategies are measured against: a tutorial's, with no harness."""

from collections.abc import Callable
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


def make_window(
    run: Run,
    place: Callable[[np.ndarray], jax.Array] = jax.device_put,
    place_rows: Callable[[np.ndarray], object] = lambda rows: rows,
    distribute: Callable[[Callable[..., tuple]], Callable[..., tuple]] = lambda step: step,
    average: Callable[[list[jax.Array]], list[jax.Array]] = lambda gradients: gradients,
) -> paired.BareWindow:
    """A function that trains one step on each of the given arrays of rows, with the data on the devices.

    `place` puts what every device has whole, `place_rows` a worker's row numbers. `distribute` wraps the step, in which
    `average` takes the mean of the gradients over the workers.
    """
    task = run.task
    parameters = [place(np.array(value)) for value in model.initial_weights(task).values()]
    train_set = place(run.dataset.train_features), place(run.dataset.train_labels)

    def train_step(parameters: list[jax.Array], rows: jax.Array, rate: jax.Array, *train_set: jax.Array) -> tuple:
        features, labels = (array[rows] for array in train_set)
        loss, gradients = jax.value_and_grad(partial(loss_of, task))(parameters, features, labels)
        pairs = zip(parameters, average(gradients), strict=True)
        return [parameter - rate * gradient for parameter, gradient in pairs], loss[None]

    step = jax.jit(distribute(train_step), donate_argnums=0)

    def window(rows_of_steps: list[np.ndarray]) -> None:
        nonlocal parameters
        for position, rows in enumerate(rows_of_steps):
            rate = np.float32(model.learning_rate(task, position))
            parameters, _ = step(parameters, place_rows(rows), rate, *train_set)
        jax.block_until_ready(parameters)

    return window


def data_parallel(run: Run) -> paired.BareWindow:
    """A `shard_map` over all devices, one of each process."""
    mesh = Mesh(np.array(jax.devices()), ("workers",))
    [device] = mesh.local_devices

    def place(array: np.ndarray) -> jax.Array:
        return jax.make_array_from_process_local_data(NamedSharding(mesh, P()), array)

    def place_rows(rows: np.ndarray) -> jax.Array:
        parts = NamedSharding(mesh, P("workers"))
        local = [jax.device_put(rows.astype(np.int32), device)]
        return jax.make_array_from_single_device_arrays((mesh.size * len(rows),), parts, local)

    distribute = partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(P(), P("workers"), P(), P(), P()),
        out_specs=(P(), P("workers")),
        check_vma=False,
    )
    return make_window(run, place, place_rows, distribute, partial(lax.pmean, axis_name="workers"))


if __name__ == "__main__":
    paired.main(jax_single=make_window, jax_data_parallel=data_parallel)
