"""What can go wrong in tf_keras_mirrored's exchange: the contract tests must catch each."""

from unittest.mock import patch

import keras
import tensorflow as tf

from tf_impl import fit


def with_changed_gradients(change):
    """Keras's SGD applies changed gradients."""
    apply = keras.optimizers.SGD.apply_gradients

    def apply_changed(optimizer, pairs):
        return apply(optimizer, [(change(gradient), variable) for gradient, variable in pairs])

    return patch.object(keras.optimizers.SGD, "apply_gradients", apply_changed)


def summed(gradient):
    return gradient * tf.distribute.get_strategy().num_replicas_in_sync


def rounded(gradient):
    return tf.cast(tf.cast(gradient, tf.float16), tf.float32)


def created_apart(*arguments, create=fit.create_model):
    model = create(*arguments)
    for variable in model.trainable_variables:
        second = variable.value.values[1]
        second.assign_add(0.001 * tf.ones_like(second))
    return model


CONTROLS = {
    "sum": lambda script: with_changed_gradients(summed),
    "float16": lambda script: with_changed_gradients(rounded),
    "skipped_broadcast": lambda script: patch.object(fit, "create_model", created_apart),
}
