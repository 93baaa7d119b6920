"""What can go wrong in tf_keras_mirrored's exchange: the contract tests must catch each."""

from unittest.mock import patch

import tensorflow as tf

from tests.controls import broken_keras
from tests.controls.tf_mirrored import second_copy


def summed(gradients):
    return [gradient * tf.distribute.get_strategy().num_replicas_in_sync for gradient in gradients]


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
}
