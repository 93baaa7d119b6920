"""What can go wrong in torch_sync_sgd's exchange: the contract tests must catch each."""

import torch.distributed as dist

from common.contract.task import PRESETS
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


CONTROLS = OF_REPLICAS | {
    "sum": lambda script: with_other(script, all_reduce=sum_times_workers),
    "one_left_out": lambda script: with_other(script, all_reduce=all_reduce_others),
    "skipped_broadcast": lambda script: apart_with(
        with_other(script, send=lambda *_, **__: None, recv=lambda *_, **__: None)
    ),
}
