"""What can go wrong between torch_model_parallel's stages: the contract tests must catch each."""

import itertools
from unittest.mock import patch

import torch

from pytorch_impl.strategies import PipelineOptions
from tests.controls.broken_torch import OF_GRADIENTS, scaled

MICRO_BATCHES = PipelineOptions().micro_batches


def losing_a_micro_batch(script):
    counts = itertools.cycle([1] * (MICRO_BATCHES - 1) + [0])
    backward = torch.Tensor.backward
    return patch.object(torch.Tensor, "backward", lambda outputs, gradient: backward(outputs, gradient * next(counts)))


CONTROLS = OF_GRADIENTS | {
    # Each micro-batch's mean gradient counts as the whole batch's.
    "sum": lambda script: scaled(MICRO_BATCHES),
    "lost_micro_batch": losing_a_micro_batch,
}
