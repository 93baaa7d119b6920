"""What breaks the exchange of TensorFlow's strategies.

TensorFlow makes all copies of a variable alike, and broadcasts what each worker made: neither can be skipped.
"""

import json
import os
from unittest.mock import patch

import keras
import tensorflow as tf

from common.contract.model import learning_rate
from common.contract.task import PRESETS
from tf_impl import fit, model

SGD = keras.optimizers.SGD


def to_float16_and_back(gradients):
    return [tf.cast(tf.cast(gradient, tf.float16), tf.float32) for gradient in gradients]


def twice(gradients):
    """The controls have two workers."""
    return [gradient * 2 for gradient in gradients]


def with_computed_gradients(change):
    """Every replica computes changed gradients, before they are exchanged."""

    def compute(*arguments, compute=model.loss_and_gradients):
        loss, gradients = compute(*arguments)
        return loss, change(gradients)

    return patch.object(model, "loss_and_gradients", compute)


def with_applied_gradients(change):
    """Keras's SGD applies changed gradients; whatever exchanges them comes after that."""

    def apply(optimizer, pairs, apply=SGD.apply_gradients):
        gradients, variables = zip(*pairs, strict=True)
        return apply(optimizer, list(zip(change(gradients), variables, strict=True)))

    return patch.object(SGD, "apply_gradients", apply)


def leaving_one_out(of_first):
    """Every gradient is exchanged but that of the first layer's weight, in the place of which stands `of_first`."""

    def reduce(extended, operation, pairs, reduce=tf.distribute.StrategyExtended.batch_reduce_to):
        (first, _), *others = pairs
        return [of_first(extended, first), *reduce(extended, operation, others)]

    return patch.object(tf.distribute.StrategyExtended, "batch_reduce_to", reduce)


def leaving_one_out_of_keras(script):
    """Every gradient is exchanged but that of the first layer's weight."""

    def reduce(context, operation, values, *arguments, reduce=tf.distribute.ReplicaContext.all_reduce):
        if not isinstance(values, list):
            return reduce(context, operation, values, *arguments)
        first, *others = values
        return [first, *reduce(context, operation, others, *arguments)]

    return patch.object(tf.distribute.ReplicaContext, "all_reduce", reduce)


def leaving_one_out_of_servers(script):
    """The gradient of the first layer's weight is the first worker's alone."""

    def add_all(parts, add_n=tf.add_n):
        return parts[0] if parts[0].shape == PRESETS["digits"].dimensions[:2] else add_n(parts)

    return patch.object(tf, "add_n", add_all)


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


def diverging_in_keras(second_copy):
    """The second replica's weights are moved at the end of step 50; `second_copy` as for `diverging`."""

    def end(clock, batch, logs=None, end=fit.Clock.on_train_batch_end):
        if batch == 50:
            for variable in clock.model.trainable_variables:
                move(second_copy(variable.value), 0.001)
        end(clock, batch, logs)

    return patch.object(fit.Clock, "on_train_batch_end", end)


def move(copy, distance):
    if copy is not None:
        copy.assign_add(distance * tf.ones_like(copy))


def copy_of_the_second_device(variable):
    return variable.values[1]


def copy_of_the_second_process(variable):
    return variable.values[0] if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1 else None


OF_GRADIENTS = {
    "sum": lambda script: with_computed_gradients(twice),
    "float16": lambda script: with_computed_gradients(to_float16_and_back),
}
OF_REPLICAS = OF_GRADIENTS | {"one_left_out": lambda script: leaving_one_out(lambda extended, first: first)}

CONTROLS = {
    "tf_mirrored": OF_REPLICAS | {"diverged": lambda script: diverging(copy_of_the_second_device)},
    "tf_multi_worker_mirrored": OF_REPLICAS | {"diverged": lambda script: diverging(copy_of_the_second_process)},
    "tf_central_storage": OF_GRADIENTS
    | {"one_left_out": lambda script: leaving_one_out(lambda extended, first: extended._local_results(first)[0])},
    "tf_parameter_server": OF_GRADIENTS | {"one_left_out": leaving_one_out_of_servers},
    "tf_keras_mirrored": {
        "sum": lambda script: with_applied_gradients(twice),
        "float16": lambda script: with_applied_gradients(to_float16_and_back),
        "one_left_out": leaving_one_out_of_keras,
        "diverged": lambda script: diverging_in_keras(copy_of_the_second_device),
    },
}
"""By strategy and name of the control: a context in which it is broken, of the names that the script has."""
