"""What can go wrong in torch_data_parallel's exchange: the contract tests must catch each."""

from tests.controls.broken_torch import changed_gradients, rounded

CONTROLS = {
    # The controls have two workers.
    "sum": lambda script: changed_gradients(lambda gradient: gradient * 2),
    "float16": lambda script: changed_gradients(rounded),
}
