"""torch_ddp in turn with a bare DistributedDataParallel loop."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import torch
from torch.nn.parallel import DistributedDataParallel

from common.measurement.run import Run
from pytorch_impl import ddp
from tests.benchmarks import bare_torch, paired


def make_bare_window(run: Run) -> paired.BareWindow:
    """A bare loop around its own DistributedDataParallel model."""
    device = "cuda" if run.world.backend == "nccl" else "cpu"
    model = DistributedDataParallel(bare_torch.build(run.task).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=run.task.learning_rate)
    return bare_torch.make_window(run, model, optimizer)


if __name__ == "__main__":
    paired.main(ddp, make_bare_window)
