"""What can go wrong in tf_mirrored's exchange: the contract tests must catch each."""

from tests.controls.broken_tensorflow import OF_GRADIENTS, diverging, leaving_one_out, one_step_old, starting_apart


def second_copy(variable):
    return variable.values[1]


CONTROLS = {
    "sum": OF_GRADIENTS["sum"],
    "float16": OF_GRADIENTS["float16"],
    "one_left_out": leaving_one_out,
    "one_step_old": one_step_old,
    "diverged": lambda script: diverging(second_copy),
    "skipped_broadcast": lambda script: starting_apart(second_copy),
}
