"""tf_keras_mirrored, its exchange broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import keras
import tensorflow as tf

from tf_impl import fit, keras_mirrored

CONTROLS = ("sum", "float16", "skipped_broadcast")
CONTROL = os.environ["LOCKSTEP_CONTROL"]


def change_gradients(change):
    """Keras's SGD applies changed gradients."""
    apply = keras.optimizers.SGD.apply_gradients

    def apply_changed(optimizer, pairs):
        return apply(optimizer, [(change(gradient), variable) for gradient, variable in pairs])

    keras.optimizers.SGD.apply_gradients = apply_changed


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


if CONTROL == "sum":
    change_gradients(summed)
elif CONTROL == "float16":
    change_gradients(rounded)
elif CONTROL == "skipped_broadcast":
    fit.create_model = created_apart
keras_mirrored.main()
