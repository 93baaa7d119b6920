"""horovod_tensorflow in turn with a bare Horovod loop."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

from common.contract import model
from common.measurement.run import Run
from horovod_impl import train_tensorflow
from tests.benchmarks import bare_tensorflow, paired


def make_bare_window(run: Run) -> paired.BareWindow:
    """The custom loop of Horovod's own tutorial, whose tensors have names of their own."""
    task = run.task
    parameters = [tf.Variable(value) for value in model.initial_weights(task).values()]
    train_features, train_labels = tf.constant(run.dataset.train_features), tf.constant(run.dataset.train_labels)

    @tf.function(autograph=False)
    def step(rows: tf.Tensor, rate: tf.Tensor) -> tf.Tensor:
        with tf.name_scope("bare"):
            with tf.GradientTape() as tape:
                logits = bare_tensorflow.logits_of(task, parameters, tf.gather(train_features, rows))
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.gather(train_labels, rows), logits)
                loss = tf.reduce_mean(losses)
            tape = hvd.DistributedGradientTape(tape)
            for parameter, gradient in zip(parameters, tape.gradient(loss, parameters), strict=True):
                tf.raw_ops.ResourceApplyGradientDescent(var=parameter.handle, alpha=rate, delta=gradient)
            return loss

    def window(rows_of_steps: list[np.ndarray]) -> None:
        for position, rows in enumerate(rows_of_steps):
            step(tf.constant(rows), tf.constant(model.learning_rate(task, position), tf.float32))

    return window


if __name__ == "__main__":
    paired.main(train_tensorflow, make_bare_window)
