"""What can go wrong in tf_multi_worker_mirrored's exchange: the contract tests must catch each.

TensorFlow's own broadcast of what each worker made can't be skipped.
"""

import json
import os

from tests.controls.broken_tensorflow import OF_REPLICAS, diverging


def second_copy(variable):
    return variable.values[0] if json.loads(os.environ["TF_CONFIG"])["task"]["index"] == 1 else None


CONTROLS = OF_REPLICAS | {"diverged": lambda script: diverging(second_copy)}
