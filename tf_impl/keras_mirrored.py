"""Keras `compile` and `fit` under MirroredStrategy: what most TensorFlow users write, one replica per device.

Without GPUs the devices are logical CPUs of the one that there is. `fit` turns the loss into a Python number after
every step, for its callbacks, so here, other than in a loop of one's own, every step waits for the devices.

To start it: `python tf_impl/keras_mirrored.py --workers 4 --preset digits`.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import UserError, exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("tensorflow")
    os.environ["KERAS_BACKEND"] = "tensorflow"  # Keras may have been set to another one.

import keras
import numpy as np
import tensorflow as tf

from common import machine, mlp
from common.config import Config, parse_command_line
from common.mlp import State
from common.run import Run
from tf_impl import model as contract


def main() -> None:
    """Train the MLP on `--workers` replicas in this process with Keras, as the command line says."""
    config = parse_command_line(__doc__)
    replicas = config.workers or 1
    refuse_what_keras_cannot(config, replicas)
    placement = machine.pin(config, local_world_size=replicas, replicas=replicas)
    devices = contract.choose_devices(config, replicas)
    # NCCL is TensorFlow's choice for GPUs. For CPUs it chooses collectives, which are slower than one device's sum.
    on_gpus = devices[0].startswith("/gpu")
    across_devices = tf.distribute.NcclAllReduce() if on_gpus else tf.distribute.ReductionToOneDevice()
    strategy = tf.distribute.MirroredStrategy(devices, across_devices if config.exchange else WithoutExchange())

    run = Run(
        config,
        strategy="tf_keras_mirrored",
        framework="tensorflow",
        placement=placement,
        world_size=replicas,
        replicas=replicas,
        backend=type(across_devices).__name__,
        device=contract.device_name(devices),
        synchronize=tf.test.experimental.sync_devices,
    )
    _train(config, run, strategy)


def _train(config: Config, run: Run, strategy: tf.distribute.Strategy) -> None:
    with strategy.scope():
        model = create_model(config, run.initial_state, run.first_step)
    model.fit(create_batches(config, run), epochs=1, shuffle=False, verbose=0, callbacks=[Clock(config, run)])
    # The rows are counted where they were used: every replica's own, with which Keras has weighted its running mean.
    [running_mean] = model.metrics
    examples = int(tf.convert_to_tensor(running_mean.count))
    held = contract.held_bytes(variables_of(model), strategy)
    run.finish(export_state(config, model), held, examples_by_rank=[examples])


def create_batches(config: Config, run: Run) -> tf.data.Dataset:
    """The contract's batches from the run's first step on, each of all workers: `fit` deals them out in slices."""
    features, labels = tf.constant(run.dataset.train_features), tf.constant(run.dataset.train_labels)
    rows = tf.data.Dataset.from_tensor_slices(np.stack(list(run.rows(run.first_step, config.steps))))
    return rows.map(lambda rows: (tf.gather(features, rows), tf.gather(labels, rows))).prefetch(tf.data.AUTOTUNE)


def create_model(config: Config, state: State, first_step: int) -> keras.Model:
    """The compiled MLP with the contract's weights, momentum and step; to be called in a scope."""
    inputs, *widths = config.dimensions
    activations = [config.activation] * (len(widths) - 1) + [None]
    layers = [
        keras.layers.Dense(width, activation, use_bias=config.bias, dtype="float32")
        for width, activation in zip(widths, activations, strict=True)
    ]
    model = keras.Sequential([keras.Input((inputs,)), *layers])
    names = mlp.parameter_names(config)
    model.set_weights([state[name] for name in names])

    learning_rate = config.learning_rate
    if config.final_learning_rate is not None:
        # With power 1 it is linear.
        learning_rate = keras.optimizers.schedules.PolynomialDecay(
            config.learning_rate, config.decay_steps, config.final_learning_rate, power=1.0
        )
    optimizer = keras.optimizers.SGD(learning_rate, config.momentum, weight_decay=config.weight_decay or None)
    optimizer.build(model.trainable_variables)
    optimizer.iterations.assign(first_step)
    for name, momentum in zip(names, optimizer.momentums, strict=bool(optimizer.momentums)):
        # Keras's momentum is torch's times the learning rate, and points downhill.
        momentum.assign(-config.learning_rate * state.get(f"{name}.momentum", np.zeros_like(state[name])))

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # `compile` makes the running mean of the losses: in float64, each of them can be told from its differences.
    keras.config.set_floatx("float64")
    model.compile(optimizer, loss, jit_compile=config.jit_compile)
    keras.config.set_floatx("float32")
    return model


def export_state(config: Config, model: keras.Model) -> State:
    """The weights and torch's momentum as NumPy arrays in the contract's layout."""
    names = mlp.parameter_names(config)
    state = dict(zip(names, model.get_weights(), strict=True))
    momenta = zip(names, model.optimizer.momentums, strict=bool(config.momentum))
    return state | {
        f"{name}.momentum": momentum.numpy() / np.float32(-config.learning_rate) for name, momentum in momenta
    }


def variables_of(model: keras.Model) -> contract.Variables:
    """TensorFlow's variables inside Keras's, with the momentum as Keras keeps it."""
    parameters, momenta = model.trainable_variables, model.optimizer.momentums
    return contract.Variables([keeper.value for keeper in parameters], [keeper.value for keeper in momenta])


class Clock(keras.callbacks.Callback):
    """Tells the run when a step begins and which loss it had, and saves checkpoints."""

    def __init__(self, config: Config, run: Run) -> None:
        super().__init__()
        self._config, self._run, self._steps, self._sum = config, run, run.steps(), 0.0

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        """Start the clock where the step begins a window."""
        next(self._steps)

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Note the step's loss; `fit` gives the mean over all steps so far."""
        before, self._sum = self._sum, logs["loss"] * (batch + 1)
        if self._config.check_replicas:
            self._run.check_replicas(*contract.export_replicas(self._config, variables_of(self.model)))
        self._run.observe(self._sum - before)
        if self._run.checkpoint_due:
            self._run.checkpoint(export_state(self._config, self.model))


class WithoutExchange(tf.distribute.ReductionToOneDevice):
    """Hands every replica its own gradients back where their sum was asked for."""

    def batch_reduce_implementation(self, reduce_op: object, value_destination_pairs: list, options: object) -> list:
        """The values as they are."""
        return [value for value, _ in value_destination_pairs]


def refuse_what_keras_cannot(config: Config, replicas: int) -> None:
    """Raises UserError for options with which Keras fails, or doesn't follow torch's formula, the contract's.

    Keras's SGD multiplies a gradient by the learning rate on its way into the momentum, where a later rate doesn't
    reach it; its weight decay shrinks the weights at once and never enters the momentum.
    """
    if config.jit_compile and replicas > 1:
        # https://www.tensorflow.org/xla/known_issues, "tf.Variable on a different device".
        raise UserError(
            "Keras compiles the step of all replicas into one XLA program, which can't have variables on several "
            "devices: leave --jit-compile out, start one worker, or use tf_mirrored."
        )
    if config.momentum and config.weight_decay:
        raise UserError(
            "Keras's SGD keeps weight decay out of the momentum, where torch's formula has it: leave --momentum or "
            "--weight-decay out, or use tf_mirrored."
        )
    changes = config.final_learning_rate not in (None, config.learning_rate)
    if config.momentum and (changes or not config.learning_rate):
        raise UserError(
            "Keras's SGD keeps its momentum multiplied by the learning rate, so it follows torch's formula only where "
            "that is constant and above 0: leave --momentum out, give --final-learning-rate and --learning-rate the "
            "same value above 0, or use tf_mirrored."
        )


if __name__ == "__main__":
    exit_with_one_line(main)
