"""torch_sync_sgd, its exchange broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import torch.distributed as dist

from pytorch_impl import mpi, sync_sgd
from tests.controls.broken_torch import change_gradients, rounded
from tests.controls.generic import start_apart

CONTROLS = ("sum", "float16", "skipped_broadcast")
CONTROL = os.environ["LOCKSTEP_CONTROL"]


def sum_gradients(parameters):
    for parameter in parameters:
        dist.all_reduce(parameter.grad)


class GradientSum(mpi.GradientMean):
    def __call__(self, parameters):
        super().__call__(parameters)
        for parameter in parameters:
            # Not in place, which would be in the memory that the workers share.
            parameter.grad = parameter.grad * self._world.size


if CONTROL == "sum":
    sync_sgd.average_gradients = sum_gradients
    mpi.GradientMean = GradientSum
elif CONTROL == "float16":
    change_gradients(rounded)
elif CONTROL == "skipped_broadcast":
    start_apart()
    sync_sgd.send_weights = lambda parameters: None
sync_sgd.main()
