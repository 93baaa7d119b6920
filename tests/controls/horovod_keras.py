"""What can go wrong in horovod_keras's exchange: the contract tests must catch each."""

from unittest.mock import patch

import horovod.tensorflow as hvd

from common.contract.task import PRESETS
from tests.controls import broken_keras
from tests.controls.broken_horovod import OF_HOROVOD
from tests.controls.horovod_tensorflow import second_copy


def reduce_others(gradient, reduce=hvd.allreduce, **options):
    """All but the first layer's weight, which is told by its shape."""
    return gradient if gradient.shape == PRESETS["digits"].dimensions[:2] else reduce(gradient, **options)


CONTROLS = OF_HOROVOD | {
    "one_left_out": lambda script: patch.object(hvd, "allreduce", reduce_others),
    "diverged": lambda script: broken_keras.diverging(second_copy),
}
