"""What can go wrong in tf_multi_worker_mirrored's exchange: the contract tests must catch each."""

import json
import os
from unittest.mock import patch

import tensorflow as tf

from tests.controls.broken_tensorflow import OF_GRADIENTS
from tf_impl import mlp


def created_apart(task, state, create=mlp.create_variables):
    """The second worker's weights are moved after TensorFlow's broadcast, which nothing can skip."""
    variables = create(task, state)
    if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1:
        for parameter in variables.parameters:
            [own] = parameter.values
            own.assign_add(0.001 * tf.ones_like(own))
    return variables


CONTROLS = {
    "sum": OF_GRADIENTS["sum"],
    "float16": OF_GRADIENTS["float16"],
    "skipped_broadcast": lambda script: patch.object(mlp, "create_variables", created_apart),
}
