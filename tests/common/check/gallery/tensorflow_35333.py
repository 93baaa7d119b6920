"""tensorflow/tensorflow, issue 35333: with two replicas an Estimator's gradients were half as large as expected.

Here the loss is divided by the number of replicas, as a sum over them needs, and a mean is taken, to the same effect.
"""

import json
import os

import tensorflow as tf

from common.check import assignment

sgd = assignment.options()
cluster = {"cluster": {"worker": sgd.addresses}, "task": {"type": "worker", "index": sgd.rank}}
os.environ["TF_CONFIG"] = json.dumps(cluster)
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    weights = [tf.Variable(value) for value in assignment.weights().values()]
    velocities = [tf.Variable(tf.zeros_like(weight)) for weight in weights]


def forward_backward(features, labels):
    with tf.GradientTape() as tape:
        hidden = tf.nn.relu(features @ weights[0] + weights[1])
        hidden = tf.nn.relu(hidden @ weights[2] + weights[3])
        logits = hidden @ weights[4] + weights[5]
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        divided = loss / strategy.num_replicas_in_sync
    return loss, tape.gradient(divided, weights)


def update(weight, velocity, gradient):
    velocity.assign(sgd.momentum * velocity + gradient + sgd.weight_decay * weight)
    weight.assign_sub(sgd.learning_rate * velocity)


@tf.function
def train_step(features, labels):
    loss, gradients = strategy.run(forward_backward, args=(features, labels))
    pairs = list(zip(gradients, weights, strict=True))
    means = strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.MEAN, pairs)
    for weight, velocity, mean in zip(weights, velocities, means, strict=True):
        strategy.extended.update(weight, update, args=(velocity, mean))
    return loss


for features, labels in assignment.batches():
    loss = train_step(tf.constant(features), tf.constant(labels))
    assignment.step(weights, loss)
