"""tf_multi_worker_mirrored, its exchange broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import tensorflow as tf

from tests.controls.broken_tensorflow import break_gradients
from tf_impl import cluster, mlp, multi_worker_mirrored
from tf_impl.strategies import MULTI_WORKER_MIRRORED

CONTROLS = ("sum", "float16", "skipped_broadcast")
CONTROL = os.environ["LOCKSTEP_CONTROL"]


def created_apart(task, state, create=mlp.create_variables):
    """The second worker's weights are moved after TensorFlow's broadcast, which nothing can skip."""
    variables = create(task, state)
    if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1:
        for parameter in variables.parameters:
            [own] = parameter.values
            own.assign_add(0.001 * tf.ones_like(own))
    return variables


cluster.start_unless_given(MULTI_WORKER_MIRRORED, __doc__)
if CONTROL == "skipped_broadcast":
    mlp.create_variables = created_apart
break_gradients(CONTROL)
multi_worker_mirrored.main()
