"""What can go wrong in torch_lightning_ddp's exchange: the contract tests must catch each."""

from functools import partial
from unittest.mock import patch

from pytorch_lightning.strategies import DDPStrategy

from tests.controls.broken_torch import (
    gradients_of_the_step_before,
    leave_out_the_first,
    rounded,
    sum_hook,
    twice_in_step_50,
)
from tests.controls.generic import all_of, start_apart


class Summing(DDPStrategy):
    """Lightning's own option for such hooks acts on GPUs only."""

    def configure_ddp(self):
        super().configure_ddp()
        self.model.register_comm_hook(None, sum_hook)


class LeavingOneOut(DDPStrategy):
    """DistributedDataParallel is told which parameters it isn't to exchange."""

    def configure_ddp(self):
        leave_out_the_first(self.model)
        super().configure_ddp()


def changing(script, change):
    """Lightning computes the gradients inside of the optimizer's step, so what changes them before that finds none."""

    def change_all(model, _optimizer):
        for parameter in model.parameters():
            parameter.grad = change(parameter)

    return patch.object(script["Network"], "on_before_optimizer_step", change_all)


CONTROLS = {
    "sum": lambda script: patch.dict(script, DDPStrategy=Summing),
    "one_left_out": lambda script: patch.dict(script, DDPStrategy=LeavingOneOut),
    "float16": lambda script: changing(script, rounded),
    "one_step_old": lambda script: changing(script, gradients_of_the_step_before()),
    "diverged": lambda script: changing(script, twice_in_step_50()),
    "skipped_broadcast": lambda script: all_of(
        start_apart(), patch.dict(script, DDPStrategy=partial(DDPStrategy, init_sync=False))
    ),
}
