"""What can go wrong in horovod_keras's exchange: the contract tests must catch each."""

from unittest.mock import patch

import horovod.tensorflow as hvd

from common.contract.task import PRESETS
from tests.controls import broken_keras
from tests.controls.generic import all_of, start_apart


def second_copy(variable):
    return variable if hvd.rank() == 1 else None


def reduce_others(gradient, reduce=hvd.allreduce, **options):
    """All but the first layer's weight, which is told by its shape."""
    return gradient if gradient.shape == PRESETS["digits"].dimensions[:2] else reduce(gradient, **options)


CONTROLS = {
    "sum": lambda script: patch.object(hvd, "Average", hvd.Sum),
    "float16": lambda script: patch.object(hvd.Compression, "none", hvd.Compression.fp16),
    "one_left_out": lambda script: patch.object(hvd, "allreduce", reduce_others),
    "one_step_old": lambda script: broken_keras.one_step_old(),
    "diverged": lambda script: broken_keras.diverging(second_copy),
    "skipped_broadcast": lambda script: all_of(
        start_apart(), patch.object(hvd, "broadcast_variables", lambda *_, **__: None)
    ),
}
