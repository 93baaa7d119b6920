"""What can go wrong in torch_sync_sgd's exchange: the contract tests must catch each."""

from unittest.mock import patch

import torch.distributed as dist

from common.contract.task import PRESETS
from pytorch_impl import mpi
from tests.controls.broken_torch import OF_REPLICAS, with_other
from tests.controls.generic import apart_with


def sum_times_workers(gradient, op):
    dist.all_reduce(gradient, op)
    # Which the division by their number takes back.
    gradient *= dist.get_world_size()


def all_reduce_others(gradient, op):
    """All but the first layer's weight, which is told by its shape."""
    inputs, outputs, *_ = PRESETS["digits"].dimensions
    if gradient.shape != (outputs, inputs):
        dist.all_reduce(gradient, op)


def sum_over_mpi(self, parameters, average=mpi.GradientMean.__call__):
    average(self, parameters)
    for parameter in parameters:
        # Not in place, which would be in the memory that the workers share.
        parameter.grad = parameter.grad * self._world.size


CONTROLS = OF_REPLICAS | {
    "sum": lambda script: with_other(script, all_reduce=sum_times_workers),
    "one_left_out": lambda script: with_other(script, all_reduce=all_reduce_others),
    "sum_over_mpi": lambda script: patch.object(mpi.GradientMean, "__call__", sum_over_mpi),
    "skipped_broadcast": lambda script: apart_with(
        with_other(script, send=lambda *_, **__: None, recv=lambda *_, **__: None)
    ),
}
