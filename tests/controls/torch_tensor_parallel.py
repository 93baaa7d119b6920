"""What can go wrong between torch_tensor_parallel's parts: the contract tests must catch each."""

from unittest.mock import patch

import torch.distributed as dist
from torch.nn.functional import linear

from tests.controls.broken_torch import changed_gradients, one_step_old, rounded


def sum_again(_context, gradient):
    gradient = gradient.contiguous()
    dist.all_reduce(gradient)
    return gradient


def repeating_the_bias(script):
    def forward(layer, features):
        return script["Sum"].apply(linear(features, layer.weight, layer.bias))

    return patch.object(script["SplitByInputs"], "forward", forward)


CONTROLS = {
    # What a differentiable all-reduce does that takes its backward for its forward's mirror image.
    "sum": lambda script: patch.object(script["Sum"], "backward", staticmethod(sum_again)),
    "float16": lambda script: changed_gradients(rounded),
    "one_step_old": lambda script: one_step_old(),
    "missing_gradient_sum": lambda script: patch.object(
        script["SumGradients"], "backward", staticmethod(lambda _context, gradient: gradient)
    ),
    "repeated_bias": repeating_the_bias,
}
