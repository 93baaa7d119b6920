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


def mean_loss(task: Task, parameters: list[tf.Variable], features: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """The mean cross-entropy of these rows."""
    logits = logits_of(task, parameters, features)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def descend(parameter: tf.Variable, gradient: tf.Tensor, rate: tf.Tensor) -> None:
    """One step of plain SGD."""
    tf.raw_ops.ResourceApplyGradientDescent(var=parameter.handle, alpha=rate, delta=gradient)


def make_window(run: Run, strategy: tf.distribute.Strategy) -> paired.BareWindow:
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

    @tf.function(autograph=False)
    def step(rows: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
        losses, gradients = strategy.run(replica_step, args=(rows,))
        gradients = strategy.extended.batch_reduce_to(SUM, list(zip(gradients, parameters, strict=True)))
        for parameter, gradient in zip(parameters, gradients, strict=True):
            strategy.extended.update(parameter, descend, args=(gradient, rate), group=False)
        # Several processes would need a collective for it, which the strategy spares as well.
        several_processes = local_replicas < strategy.num_replicas_in_sync
        return losses if several_processes else strategy.reduce(SUM, losses, axis=None)

    return partial(call_for_each, task, step)


def call_for_each(task: Task, step: Callable[[tf.Tensor, tf.Tensor], object], rows_of_steps: list[np.ndarray]) -> None:
    """Call `step` with the rows and the learning rate of one step after another."""
    for position, rows in enumerate(rows_of_steps):
        step(tf.constant(rows), tf.constant(model.learning_rate(task, position), tf.float32))


def central_storage(run: Run) -> paired.BareWindow:
    """CentralStorageStrategy on the same logical devices, with the variables on the host."""
    devices = logical_devices(run)
    strategy = tf.distribute.experimental.CentralStorageStrategy(devices, parameter_device="/cpu:0")
    return make_window(run, strategy)


def mirrored_strategy(run: Run) -> tf.distribute.MirroredStrategy:
    """MirroredStrategy on the same logical devices."""
    return tf.distribute.MirroredStrategy(logical_devices(run), cross_device_ops=tf.distribute.ReductionToOneDevice())


def horovod(run: Run) -> paired.BareWindow:
    """The custom loop of Horovod's own tutorial, whose tensors have names of their own."""
    import horovod.tensorflow as hvd

    task = run.task
    parameters = [tf.Variable(value) for value in model.initial_weights(task).values()]
    train_features, train_labels = tf.constant(run.dataset.train_features), tf.constant(run.dataset.train_labels)

    @tf.function(autograph=False)
    def step(rows: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
        with tf.name_scope("bare"):
            with tf.GradientTape() as tape:
                loss = mean_loss(task, parameters, tf.gather(train_features, rows), tf.gather(train_labels, rows))
            tape = hvd.DistributedGradientTape(tape)
            for parameter, gradient in zip(parameters, tape.gradient(loss, parameters), strict=True):
                descend(parameter, gradient, rate)
            return loss

    return partial(call_for_each, task, step)


def parameter_server(run: Run, coordinator: tf.distribute.coordinator.ClusterCoordinator) -> paired.BareWindow:
    """Asynchronous updates, one for each of the given arrays of rows, as in TensorFlow's own tutorial."""
    task = run.task
    with coordinator.strategy.scope():
        parameters = [tf.Variable(value) for value in model.initial_weights(task).values()]
        train_features = tf.Variable(run.dataset.train_features, per_worker_variable=True)
        train_labels = tf.Variable(run.dataset.train_labels, per_worker_variable=True)
        # What a tutorial's optimizer and metric keep on the servers.
        iterations, metric = tf.Variable(0, dtype=tf.int64), tf.keras.metrics.Mean()

    @tf.function(autograph=False)
    def update(rows: tf.Tensor, rate: tf.Tensor) -> None:
        features, labels = tf.gather(train_features, rows), tf.gather(train_labels, rows)
        with tf.GradientTape() as tape:
            loss = mean_loss(task, parameters, features, labels)
        for parameter, gradient in zip(parameters, tape.gradient(loss, parameters), strict=True):
            descend(parameter, gradient, rate)
        iterations.assign_add(1)
        metric.update_state(loss)

    def window(rows_of_steps: list[np.ndarray]) -> None:
        call_for_each(task, lambda *arguments: coordinator.schedule(update, arguments), rows_of_steps)
        coordinator.join()

    return window


if __name__ == "__main__":
    # Both loops share the cluster's strategy or coordinator, since a process can belong to one cluster only.
    strategies = paired.remember(tf.distribute, "MultiWorkerMirroredStrategy")
    coordinators = paired.remember(tf.distribute.coordinator, "ClusterCoordinator")
    paired.main(
        tf_one_device=lambda run: make_window(run, tf.distribute.OneDeviceStrategy("/cpu:0")),
        tf_mirrored=lambda run: make_window(run, mirrored_strategy(run)),
        tf_central_storage=central_storage,
        tf_multi_worker_mirrored=lambda run: make_window(run, strategies[0]),
        tf_parameter_server=lambda run: parameter_server(run, coordinators[0]),
        horovod_tensorflow=horovod,
    )
