"""Where a step's time goes on one worker: TensorFlow programs, each with a little more, up to the whole step, in turn.

To start it: `.nox/tensorflow/bin/python -m tests.benchmarks.step_parts --preset pathway`. The rate of the matrix
products alone, on the same shapes and the same thread, is what the machine would allow.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import tensorflow as tf
import tyro
from rich.console import Console
from rich.table import Table

from common.contract import dataset
from common.contract.mlp import initial_weights
from common.contract.task import PRESETS, Task
from common.measurement import machine
from common.statistics.intervals import median_interval
from tf_impl import mlp


@dataclass(frozen=True)
class Arguments:
    """Measure the parts of a step on one worker."""

    preset: Literal["digits", "pathway", "wide"] = "pathway"
    """Whose model and batch to use."""
    rounds: int = 40
    """Turns of each program."""
    steps: int = 50
    """Steps of each program in a turn."""


def main() -> None:
    """Run every program in turn, and print its milliseconds per step beside what it has beyond the one before."""
    arguments = tyro.cli(Arguments, description=__doc__)
    task = PRESETS[arguments.preset]
    machine.pin(task)
    mlp.choose_devices(task, 1)
    programs = build(task)
    seconds = {name: [] for name in programs}
    for _ in range(arguments.rounds + 1):
        for name, program in programs.items():
            started = time.perf_counter()
            for _ in range(arguments.steps):
                program()
            seconds[name].append((time.perf_counter() - started) / arguments.steps)
    table = Table("program", "n", "ms per step", "95 % interval", "beyond the one before", "samples/s")
    before = 0.0
    for name, values in seconds.items():
        # The first turn traces.
        interval = median_interval([1000 * value for value in values[1:]])
        beyond, before = interval.median - before, interval.median
        cells = [f"{interval.median:.3f}", f"{interval.low:.3f} to {interval.high:.3f}", f"{beyond:.3f}"]
        table.add_row(name, str(interval.n), *cells, f"{1000 * task.batch / interval.median:,.0f}")
    console = Console(width=140)
    console.print(table)
    rate = operations(task) / (np.median(seconds["matrix products"][1:]) * 1e9)
    console.print(f"{operations(task) / 1e6:.1f} million operations a step: {rate:.1f} GFLOP/s in the products alone.")


def build(task: Task) -> dict[str, Callable[[], object]]:
    """The programs by name, each with a whole step's arguments; every one has all that those before it have."""
    rows_of_data = dataset.load(task)
    train_features, train_labels = tf.constant(rows_of_data.train_features), tf.constant(rows_of_data.train_labels)
    variables = mlp.create_variables(task, initial_weights(task))
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    batch_rows = np.random.default_rng(0).integers(0, len(rows_of_data.train_labels), (1000, task.batch))
    features, labels = tf.gather(train_features, batch_rows[0]), tf.gather(train_labels, batch_rows[0])

    def call(rows: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
        return rate

    def products(rows: tf.Tensor, rate: tf.Tensor) -> Sequence[tf.Tensor]:
        return _products(task, variables.parameters, features)

    def differentiate(rows: tf.Tensor, rate: tf.Tensor) -> tuple:
        return mlp.loss_and_gradients(task, variables, features, labels, task.batch)

    def differentiate_own_rows(rows: tf.Tensor, rate: tf.Tensor) -> tuple:
        own_features, own_labels = tf.gather(train_features, rows), tf.gather(train_labels, rows)
        return mlp.loss_and_gradients(task, variables, own_features, own_labels, task.batch)

    def whole_step(rows: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
        loss, gradients = differentiate_own_rows(rows, rate)
        mlp.apply_sgd(task, variables, gradients, rate, strategy)
        return loss

    position = iter(range(10**9))

    def stepper(function: Callable) -> Callable[[], object]:
        compiled = tf.function(function, autograph=False)
        return lambda: compiled(tf.constant(batch_rows[next(position) % 1000]), tf.constant(0.01))

    with strategy.scope():
        return {
            "an empty call": stepper(call),
            "matrix products": stepper(products),
            "and the rest of forward and backward": stepper(differentiate),
            "and fetching the rows": stepper(differentiate_own_rows),
            "and the update: the whole step": stepper(whole_step),
        }


def operations(task: Task) -> int:
    """Multiplications and additions of a step's matrix products: two products per layer backward, but for the first."""
    sizes = [inputs * outputs for inputs, outputs in zip(task.dimensions[:-1], task.dimensions[1:], strict=True)]
    return 2 * task.batch * (3 * sum(sizes) - sizes[0])


def _products(task: Task, parameters: Sequence[tf.Variable], features: tf.Tensor) -> list[tf.Tensor]:
    """The matrix products of a step and nothing else; the values don't matter."""
    weights = [tf.convert_to_tensor(parameter) for parameter in parameters if parameter.shape.rank == 2]
    inputs, values = [], features
    for weight in weights:
        inputs.append(values)
        values = tf.matmul(values, weight)
    gradient, results = values, []
    for position in reversed(range(len(weights))):
        results.append(tf.matmul(inputs[position], gradient, transpose_a=True))
        if position:
            gradient = tf.matmul(gradient, weights[position], transpose_b=True)
    return results


if __name__ == "__main__":
    main()
