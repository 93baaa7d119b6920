"""torch_hook_ddp, our own DDP, in turn with a bare loop around the built-in one as torch_ddp sets it up."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import torch
from torch.nn.parallel import DistributedDataParallel

from common.measurement.run import Run
from pytorch_impl import hook_ddp
from pytorch_impl.strategies import DdpOptions
from tests.benchmarks import bare_torch, paired

CLAIMED = 0.9


def make_bare_window(run: Run) -> paired.BareWindow:
    """A bare loop around the built-in DistributedDataParallel, with torch_ddp's options."""
    options = DdpOptions(bucket_megabytes=run.options.bucket_megabytes)
    model = DistributedDataParallel(
        bare_torch.build(run.task),
        bucket_cap_mb=options.bucket_megabytes,
        gradient_as_bucket_view=options.bucket_views,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=run.task.learning_rate)
    return bare_torch.make_window(run, model, optimizer)


if __name__ == "__main__":
    paired.main(hook_ddp, make_bare_window)
