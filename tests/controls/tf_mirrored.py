"""tf_mirrored, its exchange broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import tensorflow as tf

from tests.controls.broken_tensorflow import break_gradients
from tf_impl import mirrored, mlp

CONTROLS = ("sum", "float16", "skipped_broadcast")
CONTROL = os.environ["LOCKSTEP_CONTROL"]


def created_apart(task, state, create=mlp.create_variables):
    variables = create(task, state)
    for parameter in variables.parameters:
        second = parameter.values[1]
        second.assign_add(0.001 * tf.ones_like(second))
    return variables


if CONTROL == "skipped_broadcast":
    mlp.create_variables = created_apart
break_gradients(CONTROL)
mirrored.main()
