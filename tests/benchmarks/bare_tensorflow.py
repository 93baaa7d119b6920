"""The bare custom loops that strategies of TensorFlow and horovod_tensorflow are measured against: a tutorial's."""

from collections.abc import Callable
from functools import partial

import numpy as np
import tensorflow as tf

from common.contract import model
from common.contract.task import Task
from common.measurement.run import Run
from tests.benchmarks import paired

SUM = tf.distribute.ReduceOp.SUM


def logits_of(task: Task, parameters: list[tf.Variable], values: tf.Tensor) -> tf.Tensor:
    """Logits, (rows, classes), of the features in `values`, (rows, inputs)."""
    activate = tf.nn.relu if task.activation == "relu" else tf.tanh
    if task.model == "fashion_cnn":
        first, first_bias, second, second_bias, *parameters = parameters
        values = tf.nn.relu(tf.nn.conv2d(tf.reshape(values, (-1, 28, 28, 1)), first, 1, "SAME") + first_bias)
        values = tf.nn.relu(tf.nn.conv2d(tf.nn.max_pool2d(values, 2, 2, "VALID"), second, 1, "VALID") + second_bias)
        values = tf.reshape(tf.nn.max_pool2d(values, 2, 2, "VALID"), (-1, 2304))
    for position in range(0, len(parameters), 2 if task.bias else 1):
        values = activate(values) if position else values
        values = tf.matmul(values, parameters[position])
        values = values + parameters[position + 1] if task.bias else values
    return values


def descend(parameter: tf.Variable, gradient: tf.Tensor, rate: tf.Tensor) -> None:
    """One step of plain SGD."""
    tf.raw_ops.ResourceApplyGradientDescent(var=parameter.handle, alpha=rate, delta=gradient)


def make_window(
    run: Run,
    strategy: tf.distribute.Strategy,
    distribute: Callable[[tf.GradientTape], tf.GradientTape] = lambda tape: tape,
) -> paired.BareWindow:
    """A function that trains one step on each of the given arrays of rows, with the data on the devices.

    `distribute` wraps the tape of each replica.
    """
    task, local_replicas = run.task, len(strategy.extended.worker_devices)
    with strategy.scope():
        parameters = [tf.Variable(value) for value in model.initial_weights(task).values()]
    train_features, train_labels = tf.constant(run.dataset.train_features), tf.constant(run.dataset.train_labels)

    def replica_step(rows: tf.Tensor) -> tuple:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        own = tf.reshape(rows, (local_replicas, -1))[replica % local_replicas]
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                tf.gather(train_labels, own), logits_of(task, parameters, tf.gather(train_features, own))
            )
            loss = tf.reduce_sum(losses) / run.global_batch
        return loss, distribute(tape).gradient(loss, parameters)

    @tf.function(autograph=False)
    def step(rows: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
        # Horovod tells tensors by their names, which the other loop has as well.
        with tf.name_scope("bare"):
            losses, gradients = strategy.run(replica_step, args=(rows,))
        gradients = strategy.extended.batch_reduce_to(SUM, list(zip(gradients, parameters, strict=True)))
        for parameter, gradient in zip(parameters, gradients, strict=True):
            strategy.extended.update(parameter, descend, args=(gradient, rate), group=False)
        # Several processes would need a collective for it, which the strategy spares as well.
        several_processes = local_replicas < strategy.num_replicas_in_sync
        return losses if several_processes else strategy.reduce(SUM, losses, axis=None)

    def window(rows_of_steps: list[np.ndarray]) -> None:
        for position, rows in enumerate(rows_of_steps):
            step(tf.constant(rows), tf.constant(model.learning_rate(task, position), tf.float32))

    return window


def mirrored_strategy(run: Run) -> tf.distribute.MirroredStrategy:
    """MirroredStrategy on the logical CPU devices that the strategy has made, one for each worker."""
    devices = [f"/cpu:{index}" for index in range(run.task.workers)]
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=tf.distribute.ReductionToOneDevice())


def horovod(run: Run) -> paired.BareWindow:
    """The tape of Horovod's own tutorial."""
    import horovod.tensorflow as hvd

    one_device = tf.distribute.OneDeviceStrategy("/cpu:0")
    return make_window(run, one_device, partial(hvd.DistributedGradientTape, op=hvd.Sum))


if __name__ == "__main__":
    paired.main(
        tf_one_device=lambda run: make_window(run, tf.distribute.OneDeviceStrategy("/cpu:0")),
        tf_mirrored=lambda run: make_window(run, mirrored_strategy(run)),
        # Both loops share the cluster's strategy, by which its world gathers: a process can belong to one cluster only.
        tf_multi_worker_mirrored=lambda run: make_window(run, *run.world.all_gather.args),
        horovod_tensorflow=horovod,
    )
