"""What can go wrong in tf_central_storage's exchange: the contract tests must catch each."""

from unittest.mock import patch

import tensorflow as tf

from tests.controls.broken_tensorflow import OF_GRADIENTS


def leaving_one_out(script):
    """The gradients of the first layer's weight are the first replica's alone."""

    def reduce(extended, operation, pairs, reduce=tf.distribute.StrategyExtended.batch_reduce_to):
        (first, _), *others = pairs
        return [extended._local_results(first)[0], *reduce(extended, operation, others)]

    return patch.object(tf.distribute.StrategyExtended, "batch_reduce_to", reduce)


CONTROLS = OF_GRADIENTS | {"one_left_out": leaving_one_out}
