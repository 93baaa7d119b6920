"""What can go wrong in torch_accelerate's exchange: the contract tests must catch each."""

from functools import partial
from unittest.mock import patch

import torch
from accelerate import Accelerator
from torch.nn.parallel import DistributedDataParallel

from tests.controls.broken_torch import (
    changed_gradients,
    diverging,
    leave_out_the_first,
    one_step_old,
    rounded,
    sum_hook,
)
from tests.controls.generic import all_of, start_apart


class Summing(Accelerator):
    """DistributedDataParallel gets a sum in place of its mean."""

    def prepare_model(self, *arguments, **options):
        wrapped = super().prepare_model(*arguments, **options)
        wrapped.register_comm_hook(None, sum_hook)
        return wrapped


class LeavingOneOut(Accelerator):
    """DistributedDataParallel is told which parameters it isn't to exchange."""

    def prepare_model(self, model, *arguments, **options):
        leave_out_the_first(model)
        return super().prepare_model(model, *arguments, **options)


class WithoutBroadcast(DistributedDataParallel):
    """Accelerate's own options for DistributedDataParallel lack this one."""

    def __init__(self, model, **options):
        super().__init__(model, init_sync=False, **options)


def schedule_of_processes(**options):
    """Accelerate's default: every update takes the schedule as many steps on as there are processes."""
    return Accelerator(**options | {"step_scheduler_with_optimizer": True})


CONTROLS = {
    "sum": lambda script: patch.dict(script, Accelerator=Summing),
    "one_left_out": lambda script: patch.dict(script, Accelerator=LeavingOneOut),
    "accumulated": lambda script: patch.dict(script, Accelerator=partial(Accelerator, gradient_accumulation_steps=2)),
    "schedule_of_processes": lambda script: patch.dict(script, Accelerator=schedule_of_processes),
    "float16": lambda script: changed_gradients(rounded),
    "one_step_old": lambda script: one_step_old(),
    "diverged": lambda script: diverging(),
    "skipped_broadcast": lambda script: all_of(
        start_apart(), patch.object(torch.nn.parallel, "DistributedDataParallel", WithoutBroadcast)
    ),
}
