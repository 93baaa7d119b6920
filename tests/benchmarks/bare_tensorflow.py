"""The bare custom loop that TensorFlow's strategies are measured against: its own tutorial's, with no harness."""

import numpy as np
import tensorflow as tf

from common.contract import model
from common.contract.task import Task
from common.measurement.run import Run
from tests.benchmarks.paired import BareWindow

SUM = tf.distribute.ReduceOp.SUM


def logical_devices(run: Run) -> list[str]:
    """The logical CPU devices that the strategy has made, one for each worker."""
    return [f"/cpu:{index}" for index in range(run.task.workers)]


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


def make_window(run: Run, strategy: tf.distribute.Strategy) -> BareWindow:
    """A function that trains one step on each of the given arrays of rows, with the data on the devices."""
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
        return loss, tape.gradient(loss, parameters)

    def descend(parameter: tf.Variable, gradient: tf.Tensor, rate: tf.Tensor) -> None:
        tf.raw_ops.ResourceApplyGradientDescent(var=parameter.handle, alpha=rate, delta=gradient)

    @tf.function(autograph=False)
    def step(rows: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
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
