"""What can go wrong in tf_mirrored's exchange: the contract tests must catch each.

TensorFlow makes all copies of a variable alike, which can't be skipped.
"""

from tests.controls.broken_tensorflow import OF_REPLICAS, diverging


def second_copy(variable):
    return variable.values[1]


CONTROLS = OF_REPLICAS | {"diverged": lambda script: diverging(second_copy)}
