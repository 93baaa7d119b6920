"""What can go wrong in torch_lightning_ddp's exchange: the contract tests must catch each."""

from functools import partial
from unittest.mock import patch

from pytorch_lightning.strategies import DDPStrategy

from tests.controls.broken_torch import rounded, sum_hook
from tests.controls.generic import all_of, start_apart


class Summing(DDPStrategy):
    """Lightning's own option for such hooks acts on GPUs only."""

    def configure_ddp(self):
        super().configure_ddp()
        self.model.register_comm_hook(None, sum_hook)


def round_gradients(model, _optimizer):
    """Lightning computes the gradients inside of the optimizer's step, so a hook before that finds none."""
    for parameter in model.parameters():
        parameter.grad = rounded(parameter.grad)


CONTROLS = {
    "sum": lambda script: patch.dict(script, DDPStrategy=Summing),
    "float16": lambda script: patch.object(script["MLP"], "on_before_optimizer_step", round_gradients),
    "skipped_broadcast": lambda script: all_of(
        start_apart(), patch.dict(script, DDPStrategy=partial(DDPStrategy, init_sync=False))
    ),
}
