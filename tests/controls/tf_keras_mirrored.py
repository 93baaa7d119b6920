"""What can go wrong in tf_keras_mirrored's exchange: the contract tests must catch each."""

from unittest.mock import patch

import tensorflow as tf

from tests.controls import broken_keras
from tests.controls.broken_tensorflow import move
from tests.controls.tf_mirrored import second_copy
from tf_impl import fit


def summed(gradients):
    return [gradient * tf.distribute.get_strategy().num_replicas_in_sync for gradient in gradients]


def created_apart(*arguments, create=fit.create_model):
    model = create(*arguments)
    for variable in model.trainable_variables:
        move(second_copy(variable.value), 0.001)
    return model


def leaving_one_out(script):
    """Every gradient is exchanged but that of the first layer's weight."""

    def reduce(context, operation, values, *arguments, reduce=tf.distribute.ReplicaContext.all_reduce):
        if not isinstance(values, list):
            return reduce(context, operation, values, *arguments)
        first, *others = values
        return [first, *reduce(context, operation, others, *arguments)]

    return patch.object(tf.distribute.ReplicaContext, "all_reduce", reduce)


CONTROLS = {
    "sum": lambda script: broken_keras.with_changed_gradients(summed),
    "float16": lambda script: broken_keras.with_changed_gradients(broken_keras.rounded),
    "one_left_out": leaving_one_out,
    "diverged": lambda script: broken_keras.diverging(second_copy),
    "skipped_broadcast": lambda script: patch.object(fit, "create_model", created_apart),
}
