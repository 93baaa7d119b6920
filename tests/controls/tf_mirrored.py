"""What can go wrong in tf_mirrored's exchange: the contract tests must catch each."""

from unittest.mock import patch

import tensorflow as tf

from tests.controls.broken_tensorflow import OF_GRADIENTS
from tf_impl import mlp


def created_apart(task, state, create=mlp.create_variables):
    variables = create(task, state)
    for parameter in variables.parameters:
        second = parameter.values[1]
        second.assign_add(0.001 * tf.ones_like(second))
    return variables


CONTROLS = {
    "sum": OF_GRADIENTS["sum"],
    "float16": OF_GRADIENTS["float16"],
    "skipped_broadcast": lambda script: patch.object(mlp, "create_variables", created_apart),
}
