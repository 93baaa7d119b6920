"""tf_multi_worker_mirrored with its maths broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import tensorflow as tf

from common import cluster
from common.run import Run
from tests.controls.broken_tensorflow import break_maths
from tf_impl import model as contract
from tf_impl import multi_worker_mirrored

CONTROL = os.environ["LOCKSTEP_CONTROL"]


def create_with_second_worker_apart(config, state, create=contract.create_variables):
    """The second worker's weights are moved before TensorFlow's broadcast, which mends it, or after it."""
    second = json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1
    if second and CONTROL == "apart_then_broadcast":
        state = {name: value + 0.001 for name, value in state.items()}
    variables = create(config, state)
    if second and CONTROL == "skipped_broadcast":
        for parameter in variables.parameters:
            [own] = parameter.values
            own.assign_add(0.001 * tf.ones_like(own))
    return variables


def whole_batch_for_every_worker(run):
    for batches in run._windows_of_batches(whole_batch=True):
        for batch in batches:
            yield [batch]


cluster.start_unless_given("tf_multi_worker_mirrored", __doc__)
if CONTROL in ("skipped_broadcast", "apart_then_broadcast"):
    contract.create_variables = create_with_second_worker_apart
elif CONTROL == "unsharded":
    Run.calls = whole_batch_for_every_worker
else:
    break_maths(CONTROL)
multi_worker_mirrored.main()
