"""tf_parameter_server in turn with a bare asynchronous loop on the same cluster, as in TensorFlow's own tutorial."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import numpy as np
import tensorflow as tf

from common.contract import model
from common.measurement.run import Run
from tests.benchmarks import paired
from tf_impl import cluster, parameter_server
from tf_impl.strategies import PARAMETER_SERVER

Coordinator = tf.distribute.coordinator.ClusterCoordinator


def make_window(run: Run, coordinator: Coordinator) -> paired.BareWindow:
    """A function that schedules one update for each of the given arrays of rows, and waits for all of them."""
    task = run.task
    with coordinator.strategy.scope():
        parameters = [tf.Variable(value) for value in model.initial_weights(task).values()]
        train_features = tf.Variable(run.dataset.train_features, per_worker_variable=True)
        train_labels = tf.Variable(run.dataset.train_labels, per_worker_variable=True)
        # What a tutorial's optimizer and metric keep on the servers.
        iterations, mean_loss = tf.Variable(0, dtype=tf.int64), tf.keras.metrics.Mean()
    activate = tf.nn.relu if task.activation == "relu" else tf.tanh

    @tf.function(autograph=False)
    def update(rows: tf.Tensor, rate: tf.Tensor) -> None:
        values = tf.gather(train_features, rows)
        with tf.GradientTape() as tape:
            for position in range(0, len(parameters), 2 if task.bias else 1):
                values = activate(values) if position else values
                values = tf.matmul(values, parameters[position])
                values = values + parameters[position + 1] if task.bias else values
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.gather(train_labels, rows), values)
            loss = tf.reduce_mean(losses)
        for parameter, gradient in zip(parameters, tape.gradient(loss, parameters), strict=True):
            tf.raw_ops.ResourceApplyGradientDescent(var=parameter.handle, alpha=rate, delta=gradient)
        iterations.assign_add(1)
        mean_loss.update_state(loss)

    def window(rows_of_steps: list[np.ndarray]) -> None:
        for position, rows in enumerate(rows_of_steps):
            rate = tf.constant(model.learning_rate(task, position), tf.float32)
            coordinator.schedule(update, (tf.constant(rows), rate))
        coordinator.join()

    return window


def main() -> None:
    """Both loops share the coordinator, since a process can belong to one cluster only."""
    made = []

    def make_coordinator(strategy: tf.distribute.Strategy) -> Coordinator:
        made.append(Coordinator(strategy))
        return made[0]

    parameter_server.Coordinator = make_coordinator
    paired.main(parameter_server, lambda run: make_window(run, made[0]))


if __name__ == "__main__":
    cluster.start_unless_given(PARAMETER_SERVER, __doc__)
    main()
