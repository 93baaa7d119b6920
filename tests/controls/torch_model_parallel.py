"""torch_model_parallel, its exchange broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import itertools
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import torch

from pytorch_impl import mlp, model_parallel
from pytorch_impl.strategies import PipelineOptions
from tests.controls.broken_torch import change_gradients, rounded

CONTROLS = ("sum", "float16", "lost_micro_batch", "not_accumulated")
CONTROL = os.environ["LOCKSTEP_CONTROL"]
MICRO_BATCHES = PipelineOptions().micro_batches


def replace_backward(replacement):
    """Another backward pass of every micro-batch, `replacement(outputs, gradient, backward)`."""
    backward = torch.Tensor.backward
    torch.Tensor.backward = lambda outputs, gradient: replacement(outputs, gradient, backward)


def build_without_accumulation(task, model, build=mlp.build_optimizer):
    optimizer = build(task, model)

    def forget_the_others(outputs, gradient, backward):
        optimizer.zero_grad()
        backward(outputs, gradient)

    replace_backward(forget_the_others)
    return optimizer


if CONTROL == "sum":
    # Each micro-batch's mean gradient counts as the whole batch's.
    change_gradients(lambda gradient: gradient * MICRO_BATCHES)
elif CONTROL == "float16":
    change_gradients(rounded)
elif CONTROL == "lost_micro_batch":
    counts = itertools.cycle([1] * (MICRO_BATCHES - 1) + [0])
    replace_backward(lambda outputs, gradient, backward: backward(outputs, gradient * next(counts)))
elif CONTROL == "not_accumulated":
    mlp.build_optimizer = build_without_accumulation
model_parallel.main()
