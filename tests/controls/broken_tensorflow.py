"""What breaks the exchange of TensorFlow's strategies with a loop of their own."""

from unittest.mock import patch

import tensorflow as tf

from common.contract.model import learning_rate
from tf_impl import model


def summed(*arguments, compute=model.loss_and_gradients):
    """The controls have two workers."""
    loss, gradients = compute(*arguments)
    return loss, [gradient * 2 for gradient in gradients]


def rounded(*arguments, compute=model.loss_and_gradients):
    loss, gradients = compute(*arguments)
    return loss, [tf.cast(tf.cast(gradient, tf.float16), tf.float32) for gradient in gradients]


def leaving_one_out(script):
    """Every gradient is exchanged but that of the first layer's weight."""

    def reduce(extended, operation, pairs, reduce=tf.distribute.StrategyExtended.batch_reduce_to):
        (first, _), *others = pairs
        return [first, *reduce(extended, operation, others)]

    return patch.object(tf.distribute.StrategyExtended, "batch_reduce_to", reduce)


def diverging(second_copy):
    """The second replica's first parameter is moved in step 50, which the schedule tells by its rate.

    `second_copy` gives that replica's copy of a variable, and None where another process has it.
    """

    def apply(task, variables, gradients, rate, strategy, apply=model.apply_sgd):
        applied = apply(task, variables, gradients, rate, strategy)
        in_step_50 = tf.equal(rate, tf.constant(learning_rate(task, 50), tf.float32))
        with tf.control_dependencies(applied):
            move(second_copy(variables.parameters[0]), 0.001 * tf.cast(in_step_50, tf.float32))
        return applied

    return patch.object(model, "apply_sgd", apply)


def move(copy, distance):
    if copy is not None:
        copy.assign_add(distance * tf.ones_like(copy))


OF_GRADIENTS = {
    "sum": lambda script: patch.object(model, "loss_and_gradients", summed),
    "float16": lambda script: patch.object(model, "loss_and_gradients", rounded),
}
OF_REPLICAS = OF_GRADIENTS | {"one_left_out": leaving_one_out}
