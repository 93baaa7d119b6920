"""What can go wrong in tf_parameter_server's exchange: the contract tests must catch each."""

from unittest.mock import patch

import tensorflow as tf

from common.contract.task import PRESETS
from tests.controls.broken_tensorflow import OF_GRADIENTS


def leaving_one_out(script):
    """The gradient of the first layer's weight is the first worker's alone."""

    def add_all(parts, add_n=tf.add_n):
        return parts[0] if parts[0].shape == PRESETS["digits"].dimensions[:2] else add_n(parts)

    return patch.object(tf, "add_n", add_all)


CONTROLS = OF_GRADIENTS | {"one_left_out": leaving_one_out}
