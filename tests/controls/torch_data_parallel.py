"""What can go wrong in torch_data_parallel's exchange: the contract tests must catch each."""

from tests.controls.broken_torch import changed_gradients, one_step_old, rounded, scaled

CONTROLS = {
    # The controls have two workers.
    "sum": lambda script: scaled(2),
    "float16": lambda script: changed_gradients(rounded),
    "one_step_old": lambda script: one_step_old(),
}
