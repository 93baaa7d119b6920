"""torch_sync_sgd over MPI's shared memory in turn with a bare DistributedDataParallel loop over Gloo."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from common.measurement.run import Run
from pytorch_impl import sync_sgd, world
from tests.benchmarks import bare_torch, paired

OPTIONS = {"backend": "mpi"}
CLAIMED = {("pathway", 2): 1.25}


def make_bare_window(run: Run) -> paired.BareWindow:
    """A bare loop around its own DistributedDataParallel model, in a Gloo world of the same processes."""
    store = Path(os.environ["LOCKSTEP_PAIRS"]).with_suffix(".store")
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    dist.init_process_group("gloo", init_method=store.as_uri(), rank=rank, world_size=run.world.size)
    model = DistributedDataParallel(bare_torch.build(run.task))
    optimizer = torch.optim.SGD(model.parameters(), lr=run.task.learning_rate)
    return bare_torch.make_window(run, model, optimizer)


if __name__ == "__main__":
    paired.main(sync_sgd, make_bare_window)
    world.leave()
