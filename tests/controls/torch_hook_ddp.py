"""What can go wrong in torch_hook_ddp's exchange: the contract tests must catch each."""

from types import SimpleNamespace
from unittest.mock import patch

import torch.distributed as dist

from tests.controls.broken_torch import changed_gradients, diverging, one_step_old, rounded
from tests.controls.generic import all_of, start_apart


def with_other(script, **functions):
    """The script calls other functions of torch.distributed, and nobody else does."""
    return patch.dict(script, dist=SimpleNamespace(**vars(dist) | functions))


def all_reduce_half(bucket, **options):
    """The first layer's weight is in the bucket's second half."""
    return dist.all_reduce(bucket[: len(bucket) // 2], **options)


CONTROLS = {
    # It is the divisor.
    "sum": lambda script: with_other(script, get_world_size=lambda: 1),
    "one_left_out": lambda script: with_other(script, all_reduce=all_reduce_half),
    "float16": lambda script: changed_gradients(rounded),
    "one_step_old": lambda script: one_step_old(),
    "diverged": lambda script: diverging(),
    "skipped_broadcast": lambda script: all_of(start_apart(), with_other(script, broadcast=lambda *_, **__: None)),
}
