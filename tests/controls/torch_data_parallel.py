"""What can go wrong in torch_data_parallel's exchange: the contract tests must catch each."""

from tests.controls.broken_torch import OF_GRADIENTS

CONTROLS = OF_GRADIENTS
