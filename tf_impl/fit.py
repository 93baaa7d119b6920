"""The model, its batches and the clock inside `fit`, for strategies that train by Keras `compile` and `fit`."""

from collections.abc import Callable
from functools import partial

import keras
import numpy as np
import tensorflow as tf

from common.contract.layers import Activation, Convolution, Dense, Layer, Pool, Reshape
from common.contract.model import State, named_layers, parameter_names
from common.contract.task import Task
from common.errors import UserError
from common.measurement.run import Run


def create_batches(task: Task, run: Run) -> tf.data.Dataset:
    """The contract's batches from the run's first step on, each with all rows of this process."""
    features, labels = tf.constant(run.dataset.train_features), tf.constant(run.dataset.train_labels)
    rows = tf.data.Dataset.from_tensor_slices(np.stack(list(run.rows(run.first_step, task.steps))))
    return rows.map(lambda rows: (tf.gather(features, rows), tf.gather(labels, rows))).prefetch(tf.data.AUTOTUNE)


class Trained(keras.Sequential):
    """Keras's own training step. Its callbacks get each replica's loss of the step in place of the running mean.

    Computing it within the step costs next to nothing. Reading the metric's sums after each step takes 0.2 ms.
    """

    def train_step(self, data: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Train one step on this replica's rows and return their loss.

        With several replicas the loss is a vector with zeros in the other replicas' places.
        """
        [running_mean] = self.metrics
        sum_before = tf.convert_to_tensor(running_mean.total)
        super().train_step(data)
        loss = (running_mean.total - sum_before) / tf.cast(tf.shape(data[0])[0], running_mean.dtype)
        replica = tf.distribute.get_replica_context()
        # Keras gives callbacks the mean over all replicas, so each value is multiplied by their number.
        replicas = replica.num_replicas_in_sync
        position = tf.one_hot(replica.replica_id_in_sync_group, replicas, dtype=loss.dtype)
        return {"loss": loss * position * replicas if replicas > 1 else loss}


def create_model(
    task: Task,
    state: State,
    first_step: int,
    jit_compile: bool = False,
    make_optimizer: Callable[..., keras.optimizers.SGD] = keras.optimizers.SGD,
) -> keras.Model:
    """The compiled model with the contract's weights, momentum and step. Call it in the strategy's scope, if any.

    `make_optimizer` takes the arguments of Keras's SGD.
    """
    model = Trained([keras.Input(task.dimensions[:1]), *map(keras_layer, named_layers(task).values())])
    names = parameter_names(task)
    model.set_weights([state[name] for name in names])

    learning_rate = task.learning_rate
    if task.final_learning_rate is not None:
        # Power 1 makes the decay linear.
        learning_rate = keras.optimizers.schedules.PolynomialDecay(
            task.learning_rate, task.decay_steps, task.final_learning_rate, power=1.0
        )
    optimizer = make_optimizer(learning_rate, task.momentum, weight_decay=task.weight_decay or None)
    optimizer.build(model.trainable_variables)
    optimizer.iterations.assign(first_step)
    for name, momentum in zip(names, optimizer.momentums, strict=bool(optimizer.momentums)):
        # Keras's momentum is torch's times the learning rate, and points downhill.
        momentum.assign(-task.learning_rate * state.get(f"{name}.momentum", np.zeros_like(state[name])))

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # `compile` makes the running mean of the losses. In float64 its differences give each loss.
    keras.config.set_floatx("float64")
    model.compile(optimizer, loss, jit_compile=jit_compile)
    keras.config.set_floatx("float32")
    return model


def keras_layer(layer: Layer) -> keras.Layer:
    """Keras's layer of the contract's. Raises UserError for a kind that is missing here, and in KERAS_KINDS."""
    match layer:
        case Dense(_, outputs, bias):
            return keras.layers.Dense(outputs, use_bias=bias, dtype="float32")
        case Convolution(_, outputs, size, padding, bias):
            borders = "same" if padding else "valid"
            return keras.layers.Conv2D(outputs, size, padding=borders, use_bias=bias, dtype="float32")
        case Pool(kind, size):
            return (keras.layers.AveragePooling2D if kind == "average" else keras.layers.MaxPooling2D)(size)
        case Reshape(shape):
            return keras.layers.Reshape(shape)
        case Activation(kind):
            return keras.layers.Activation(partial(tf.nn.gelu, approximate=True) if kind == "gelu" else kind)
    raise UserError(f"Keras has no {type(layer).__name__} layer here: add it to keras_layer in {__file__}.")


def variables_of(model: keras.Model) -> tuple[list[tf.Variable], list[tf.Variable]]:
    """TensorFlow's variables inside Keras's: the parameters, and the momenta as Keras keeps them."""
    parameters, momenta = model.trainable_variables, model.optimizer.momentums
    return [parameter.value for parameter in parameters], [momentum.value for momentum in momenta]


def export_state(task: Task, model: keras.Model) -> State:
    """The weights and torch's momentum as NumPy arrays in the contract's layout."""
    names = parameter_names(task)
    state = dict(zip(names, model.get_weights(), strict=True))
    momenta = zip(names, model.optimizer.momentums, strict=bool(task.momentum))
    return state | {
        f"{name}.momentum": momentum.numpy() / np.float32(-task.learning_rate) for name, momentum in momenta
    }


def count_examples(model: keras.Model) -> int:
    """The number of rows that `fit` has trained this process's replicas on.

    Keras counts the rows where it uses them: they are the weights of its running mean of the losses.
    """
    [running_mean] = model.metrics
    return int(tf.convert_to_tensor(running_mean.count))


class Clock(keras.callbacks.Callback):
    """Passes each step's begin, and each replica's loss of the step, to the run."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run, self._steps = run, run.steps()

    def on_train_batch_begin(self, batch: int, logs: dict | None = None) -> None:
        """Start the clock where the step begins a window."""
        next(self._steps)

    def on_train_batch_end(self, batch: int, logs: dict | None = None) -> None:
        """Observe each replica's loss of the step."""
        self._run.observe(logs["loss"])
