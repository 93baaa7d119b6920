"""What can go wrong in horovod_torch's exchange: the contract tests must catch each."""

from unittest.mock import patch

from horovod.torch import optimizer

from common.contract.task import PRESETS
from tests.controls.broken_horovod import OF_HOROVOD
from tests.controls.broken_torch import OF_REPLICAS


def begin_others(gradient, begin=optimizer.allreduce_async_, **options):
    """All but the first layer's weight, told by its shape; a function in place of a handle gives the result."""
    inputs, outputs, *_ = PRESETS["digits"].dimensions
    return (lambda: gradient) if gradient.shape == (outputs, inputs) else begin(gradient, **options)


CONTROLS = OF_HOROVOD | {
    "one_left_out": lambda script: patch.object(optimizer, "allreduce_async_", begin_others),
    "one_step_old": OF_REPLICAS["one_step_old"],
    "diverged": OF_REPLICAS["diverged"],
}
