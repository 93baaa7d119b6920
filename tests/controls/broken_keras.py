"""What breaks the exchange of strategies that train by Keras."""

from unittest.mock import patch

import keras
import tensorflow as tf

from tests.controls.broken_tensorflow import move
from tf_impl import fit

SGD = keras.optimizers.SGD


def with_changed_gradients(change):
    """Keras's SGD applies changed gradients; whatever exchanges them comes after that."""

    def apply(optimizer, pairs, apply=SGD.apply_gradients):
        gradients, variables = zip(*pairs, strict=True)
        return apply(optimizer, list(zip(change(gradients), variables, strict=True)))

    return patch.object(SGD, "apply_gradients", apply)


def rounded(gradients):
    return [tf.cast(tf.cast(gradient, tf.float16), tf.float32) for gradient in gradients]


def diverging(second_copy):
    """The second replica's weights are moved at the end of step 50; `second_copy` as in `broken_tensorflow`."""

    def end(clock, batch, logs=None, end=fit.Clock.on_train_batch_end):
        if batch == 50:
            for variable in clock.model.trainable_variables:
                move(second_copy(variable.value), 0.001)
        end(clock, batch, logs)

    return patch.object(fit.Clock, "on_train_batch_end", end)
