"""What can go wrong in torch_hook_ddp's exchange: the contract tests must catch each."""

from types import SimpleNamespace
from unittest.mock import patch

import torch.distributed as dist

from tests.controls.broken_torch import changed_gradients, rounded
from tests.controls.generic import all_of, start_apart


def with_other(script, **functions):
    """The script calls other functions of torch.distributed, and nobody else does."""
    return patch.dict(script, dist=SimpleNamespace(**vars(dist) | functions))


CONTROLS = {
    # It is the divisor.
    "sum": lambda script: with_other(script, get_world_size=lambda: 1),
    "float16": lambda script: changed_gradients(rounded),
    "skipped_broadcast": lambda script: all_of(start_apart(), with_other(script, broadcast=lambda *_, **__: None)),
}
