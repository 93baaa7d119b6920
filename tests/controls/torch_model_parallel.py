"""torch_model_parallel with its maths broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import itertools

import torch

from common.config import Config
from pytorch_impl import model as contract
from pytorch_impl import model_parallel
from tests.controls.broken_torch import break_maths, change_gradients

CONTROL = os.environ["LOCKSTEP_CONTROL"]
MICRO_BATCHES = Config().micro_batches


def replace_backward(replacement):
    """Another backward pass of every micro-batch, `replacement(outputs, gradient, backward)`."""
    backward = torch.Tensor.backward
    torch.Tensor.backward = lambda outputs, gradient: replacement(outputs, gradient, backward)


def build_without_accumulation(config, model, build=contract.build_optimizer):
    optimizer = build(config, model)

    def forget_the_others(outputs, gradient, backward):
        optimizer.zero_grad()
        backward(outputs, gradient)

    replace_backward(forget_the_others)
    return optimizer


if CONTROL == "sum":
    # Each micro-batch's mean gradient counts as the whole batch's.
    change_gradients(lambda gradient: gradient * MICRO_BATCHES)
elif CONTROL == "lost_micro_batch":
    counts = itertools.cycle([1] * (MICRO_BATCHES - 1) + [0])
    replace_backward(lambda outputs, gradient, backward: backward(outputs, gradient * next(counts)))
elif CONTROL == "not_accumulated":
    contract.build_optimizer = build_without_accumulation
else:
    break_maths(CONTROL)
model_parallel.main()
