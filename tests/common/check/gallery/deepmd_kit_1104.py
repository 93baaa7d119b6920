"""deepmodeling/deepmd-kit, pull request 1104: gradients were computed without Horovod's wrapper, so never averaged.

Weights were broadcast once, and then each worker trained alone.
"""

import horovod.tensorflow as hvd
import tensorflow as tf

from common.check import assignment

hvd.init()
sgd = assignment.options()
weights = [tf.Variable(value) for value in assignment.weights().values()]
velocities = [tf.Variable(tf.zeros_like(weight)) for weight in weights]
hvd.broadcast_variables(weights, root_rank=0)


@tf.function
def train_step(features, labels):
    with tf.GradientTape() as tape:  # hvd.DistributedGradientTape belongs around it.
        hidden = tf.nn.relu(features @ weights[0] + weights[1])
        hidden = tf.nn.relu(hidden @ weights[2] + weights[3])
        logits = hidden @ weights[4] + weights[5]
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    gradients = tape.gradient(loss, weights)
    for weight, velocity, gradient in zip(weights, velocities, gradients, strict=True):
        velocity.assign(sgd.momentum * velocity + gradient + sgd.weight_decay * weight)
        weight.assign_sub(sgd.learning_rate * velocity)
    return loss


for features, labels in assignment.batches():
    loss = train_step(tf.constant(features), tf.constant(labels))
    assignment.step(weights, loss)
