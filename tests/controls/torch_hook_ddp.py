"""What can go wrong in torch_hook_ddp's exchange: the contract tests must catch each."""

import torch.distributed as dist

from tests.controls.broken_torch import OF_REPLICAS, with_other
from tests.controls.generic import apart_with


def all_reduce_half(bucket, **options):
    """The first layer's weight is in the bucket's second half."""
    return dist.all_reduce(bucket[: len(bucket) // 2], **options)


CONTROLS = OF_REPLICAS | {
    # It is the divisor.
    "sum": lambda script: with_other(script, get_world_size=lambda: 1),
    "one_left_out": lambda script: with_other(script, all_reduce=all_reduce_half),
    "skipped_broadcast": lambda script: apart_with(with_other(script, broadcast=lambda *_, **__: None)),
}
