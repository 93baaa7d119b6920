"""What can go wrong in tf_mirrored's exchange: the contract tests must catch each."""

from tests.controls.broken_tensorflow import OF_REPLICAS, diverging, starting_apart


def second_copy(variable):
    return variable.values[1]


CONTROLS = OF_REPLICAS | {
    "diverged": lambda script: diverging(second_copy),
    "skipped_broadcast": lambda script: starting_apart(second_copy),
}
