"""What can go wrong in torch_fsdp's exchange: the contract tests must catch each."""

from functools import partial
from unittest.mock import patch

from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import distribute_tensor

from tests.controls.broken_torch import OF_REPLICAS
from tests.controls.generic import apart_with


def shard_and_sum(module, mesh):
    sharded = fully_shard(module, mesh=mesh)
    sharded.set_gradient_divide_factor(1.0)
    # Else FSDP asks for a scaled sum, which Gloo lacks.
    sharded.set_force_sum_reduction_for_comms(True)
    return sharded


CONTROLS = OF_REPLICAS | {
    "sum": lambda script: patch.dict(script, fully_shard=shard_and_sum),
    # Every worker keeps its part of its own weights, and takes none of rank 0's.
    "skipped_broadcast": lambda script: apart_with(
        patch.dict(script, distribute_tensor=partial(distribute_tensor, src_data_rank=None))
    ),
}
