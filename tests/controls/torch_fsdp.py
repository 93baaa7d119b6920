"""torch_fsdp with its maths broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import os
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import distribute_tensor

from pytorch_impl import fsdp
from tests.controls.broken_torch import break_maths

CONTROL = os.environ["LOCKSTEP_CONTROL"]


def shard_and_sum(module, mesh):
    sharded = fully_shard(module, mesh=mesh)
    sharded.set_gradient_divide_factor(1.0)
    # Else FSDP asks for a scaled sum, which Gloo lacks.
    sharded.set_force_sum_reduction_for_comms(True)
    return sharded


def load_apart(config, model, optimizer, state, load=fsdp._load_state):
    load(config, model, optimizer, {name: value + 0.001 * dist.get_rank() for name, value in state.items()})


if CONTROL == "sum":
    fsdp.fully_shard = shard_and_sum
elif CONTROL == "skipped_broadcast":
    fsdp._load_state = load_apart
    # Every worker keeps its part of its own weights, and takes none of rank 0's.
    fsdp.distribute_tensor = partial(distribute_tensor, src_data_rank=None)
elif CONTROL == "apart_then_broadcast":
    fsdp._load_state = load_apart
else:
    break_maths(CONTROL)
fsdp.main()
