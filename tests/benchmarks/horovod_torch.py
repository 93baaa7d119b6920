"""horovod_torch in turn with a bare Horovod loop."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import horovod.torch as hvd
import torch

from common.measurement.run import Run
from horovod_impl import train
from tests.benchmarks import bare_torch, paired


def make_bare_window(run: Run) -> paired.BareWindow:
    """A bare loop around its own distributed optimizer, whose tensors have names of their own."""
    model = bare_torch.build(run.task)
    optimizer = torch.optim.SGD(model.parameters(), lr=run.task.learning_rate)
    names = [(f"bare.{name}", parameter) for name, parameter in model.named_parameters()]
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=names)
    return bare_torch.make_window(run, model, optimizer)


if __name__ == "__main__":
    paired.main(train, make_bare_window)
