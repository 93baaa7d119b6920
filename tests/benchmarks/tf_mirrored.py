"""tf_mirrored in turn with a bare MirroredStrategy loop."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import numpy as np
import tensorflow as tf

from common import mlp
from common.run import Run
from tests.benchmarks import paired
from tf_impl import mirrored

SUM = tf.distribute.ReduceOp.SUM


def make_bare_window(run: Run) -> paired.BareWindow:
    """A bare custom loop on the same logical devices, with the data on them, as in TensorFlow's own tutorial."""
    config, replicas = run.config, run.config.workers
    devices = [f"/cpu:{index}" for index in range(replicas)]
    strategy = tf.distribute.MirroredStrategy(devices, cross_device_ops=tf.distribute.ReductionToOneDevice())
    with strategy.scope():
        parameters = [tf.Variable(value) for value in mlp.initial_weights(config).values()]
    train_features, train_labels = tf.constant(run.dataset.train_features), tf.constant(run.dataset.train_labels)
    activate = tf.nn.relu if config.activation == "relu" else tf.tanh

    def logits_of(values: tf.Tensor) -> tf.Tensor:
        for position in range(0, len(parameters), 2 if config.bias else 1):
            values = activate(values) if position else values
            values = tf.matmul(values, parameters[position])
            values = values + parameters[position + 1] if config.bias else values
        return values

    def replica_step(rows: tf.Tensor) -> tuple:
        own = tf.reshape(rows, (replicas, -1))[tf.distribute.get_replica_context().replica_id_in_sync_group]
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                tf.gather(train_labels, own), logits_of(tf.gather(train_features, own))
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
        return strategy.reduce(SUM, losses, axis=None)

    def window(rows_of_steps: list[np.ndarray]) -> None:
        for position, rows in enumerate(rows_of_steps):
            step(tf.constant(rows), tf.constant(mlp.learning_rate(config, position), tf.float32))

    return window


if __name__ == "__main__":
    paired.main(mirrored, make_bare_window)
