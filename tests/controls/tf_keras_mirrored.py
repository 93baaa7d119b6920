"""tf_keras_mirrored with its maths broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import dataclasses
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import keras
import tensorflow as tf

from tf_impl import fit, keras_mirrored


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


def whole_batch_for_every_replica(config, run, create=fit.create_batches):
    def repeat(features, labels):
        return tf.tile(features, [config.workers, 1]), tf.tile(labels, [config.workers])

    return create(config, run).map(repeat)


def created_with_scaled_rate(config, *state, create=fit.create_model):
    return create(dataclasses.replace(config, learning_rate=config.workers * config.learning_rate), *state)


def created_apart(config, *state, create=fit.create_model):
    model = create(config, *state)
    for variable in model.trainable_variables:
        second = variable.value.values[1]
        second.assign_add(0.001 * tf.ones_like(second))
    return model


def break_maths(control: str) -> None:
    if control == "sum":
        change_gradients(summed)
    elif control == "float16":
        change_gradients(rounded)
    elif control == "unsharded":
        fit.create_batches = whole_batch_for_every_replica
    elif control == "scaled_rate":
        fit.create_model = created_with_scaled_rate
    elif control == "skipped_broadcast":
        fit.create_model = created_apart
    else:
        raise ValueError(control)


break_maths(os.environ["LOCKSTEP_CONTROL"])
keras_mirrored.main()
