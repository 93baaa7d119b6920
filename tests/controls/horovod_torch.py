"""What can go wrong in horovod_torch's exchange: the contract tests must catch each."""

from unittest.mock import patch

import horovod.torch as hvd
from horovod.torch import optimizer

from common.contract.task import PRESETS
from tests.controls.broken_torch import diverging, one_step_old
from tests.controls.generic import all_of, start_apart


def begin_others(gradient, begin=optimizer.allreduce_async_, **options):
    """All but the first layer's weight, told by its shape; a function in place of a handle gives the result."""
    inputs, outputs, *_ = PRESETS["digits"].dimensions
    return (lambda: gradient) if gradient.shape == (outputs, inputs) else begin(gradient, **options)


CONTROLS = {
    "sum": lambda script: patch.object(hvd, "Average", hvd.Sum),
    "float16": lambda script: patch.object(hvd.Compression, "none", hvd.Compression.fp16),
    "one_left_out": lambda script: patch.object(optimizer, "allreduce_async_", begin_others),
    "one_step_old": lambda script: one_step_old(),
    "diverged": lambda script: diverging(),
    "skipped_broadcast": lambda script: all_of(
        start_apart(), patch.object(hvd, "broadcast_parameters", lambda *_, **__: None)
    ),
}
