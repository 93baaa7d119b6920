"""What can go wrong in torch_zero's exchange: the contract tests must catch each."""

from functools import partial
from unittest.mock import patch

from torch.nn.parallel import DistributedDataParallel

from tests.controls.broken_torch import changed_gradients, diverging, leaving_one_out, one_step_old, rounded, summing
from tests.controls.generic import all_of, start_apart

CONTROLS = {
    "sum": lambda script: patch.dict(script, DistributedDataParallel=summing),
    "one_left_out": lambda script: patch.dict(script, DistributedDataParallel=leaving_one_out),
    "float16": lambda script: changed_gradients(rounded),
    "one_step_old": lambda script: one_step_old(),
    "diverged": lambda script: diverging(),
    "skipped_broadcast": lambda script: all_of(
        start_apart(), patch.dict(script, DistributedDataParallel=partial(DistributedDataParallel, init_sync=False))
    ),
}
