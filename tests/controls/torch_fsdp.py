"""torch_fsdp, its exchange broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import os
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import distribute_tensor

from pytorch_impl import fsdp
from tests.controls.broken_torch import change_gradients, rounded
from tests.controls.generic import start_apart

CONTROLS = ("sum", "float16", "skipped_broadcast")
CONTROL = os.environ["LOCKSTEP_CONTROL"]


def shard_and_sum(module, mesh):
    sharded = fully_shard(module, mesh=mesh)
    sharded.set_gradient_divide_factor(1.0)
    # Else FSDP asks for a scaled sum, which Gloo lacks.
    sharded.set_force_sum_reduction_for_comms(True)
    return sharded


if CONTROL == "sum":
    fsdp.fully_shard = shard_and_sum
elif CONTROL == "float16":
    change_gradients(rounded)
elif CONTROL == "skipped_broadcast":
    start_apart()
    # Every worker keeps its part of its own weights, and takes none of rank 0's.
    fsdp.distribute_tensor = partial(distribute_tensor, src_data_rank=None)
fsdp.main()
