"""torch_hook_ddp, our own DDP, in turn with a bare loop around the built-in one as torch_ddp sets it up."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import torch
from torch.nn.parallel import DistributedDataParallel

from common.run import Run
from pytorch_impl import hook_ddp, world
from tests.benchmarks import bare_torch, paired


def make_bare_window(run: Run) -> paired.BareWindow:
    """A bare loop around the built-in DistributedDataParallel, with torch_ddp's options."""
    model = DistributedDataParallel(
        bare_torch.build(run.config),
        bucket_cap_mb=run.config.bucket_megabytes,
        gradient_as_bucket_view=run.config.bucket_views,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=run.config.learning_rate)
    return bare_torch.make_window(run, model, optimizer)


if __name__ == "__main__":
    paired.main(hook_ddp, make_bare_window, joined_by=world)
