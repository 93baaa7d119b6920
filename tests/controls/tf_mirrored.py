"""tf_mirrored with its maths broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import tensorflow as tf

from tests.controls.broken_tensorflow import break_maths
from tf_impl import mirrored
from tf_impl import model as contract


def created_apart(config, state, create=contract.create_variables):
    variables = create(config, state)
    for parameter in variables.parameters:
        second = parameter.values[1]
        second.assign_add(0.001 * tf.ones_like(second))
    return variables


if os.environ["LOCKSTEP_CONTROL"] == "skipped_broadcast":
    contract.create_variables = created_apart
else:
    break_maths(os.environ["LOCKSTEP_CONTROL"])
mirrored.main()
