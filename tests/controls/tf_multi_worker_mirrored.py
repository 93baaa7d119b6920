"""What can go wrong in tf_multi_worker_mirrored's exchange: the contract tests must catch each."""

import json
import os

from tests.controls.broken_tensorflow import OF_GRADIENTS, diverging, leaving_one_out, one_step_old, starting_apart


def second_copy(variable):
    return variable.values[0] if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1 else None


CONTROLS = {
    "sum": OF_GRADIENTS["sum"],
    "float16": OF_GRADIENTS["float16"],
    "one_left_out": leaving_one_out,
    "one_step_old": one_step_old,
    "diverged": lambda script: diverging(second_copy),
    # TensorFlow's own broadcast of what each worker made can't be skipped.
    "skipped_broadcast": lambda script: starting_apart(second_copy),
}
