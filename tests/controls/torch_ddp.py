"""What can go wrong in torch_ddp's exchange: the contract tests must catch each."""

from tests.controls.broken_torch import OF_DDP

CONTROLS = OF_DDP
