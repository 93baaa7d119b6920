"""torch_single in turn with a bare loop, on the GPU where there is one."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import torch

from common.measurement.run import Run
from pytorch_impl import single
from tests.benchmarks import bare_torch, paired

# On the CPU of two shared cores its claim was never measured.
CLAIMED = None
PRESETS = ("digits", "pathway", "wide", "mnist_lenet", "mnist_cnn", "text_gpt")


def make_bare_window(run: Run) -> paired.BareWindow:
    """A bare loop around its own model."""
    model = bare_torch.build(run.task).to("cpu" if run.world.device == "cpu" else "cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=run.task.learning_rate, momentum=run.task.momentum)
    return bare_torch.make_window(run, model, optimizer)


if __name__ == "__main__":
    paired.main(single, make_bare_window)
