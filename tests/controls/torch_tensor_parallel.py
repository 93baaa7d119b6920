"""What can go wrong between torch_tensor_parallel's parts: the contract tests must catch each."""

from unittest.mock import patch

import torch.distributed as dist
from torch.nn.functional import linear

from tests.controls.broken_torch import OF_GRADIENTS


def sum_again(_context, gradient):
    gradient = gradient.contiguous()
    dist.all_reduce(gradient)
    return gradient


def repeating_the_bias(script):
    def forward(layer, features):
        return script["Sum"].apply(linear(features, layer.weight, layer.bias))

    return patch.object(script["SplitByInputs"], "forward", forward)


CONTROLS = OF_GRADIENTS | {
    # What a differentiable all-reduce does that takes its backward for its forward's mirror image.
    "sum": lambda script: patch.object(script["Sum"], "backward", staticmethod(sum_again)),
    "missing_gradient_sum": lambda script: patch.object(
        script["SumGradients"], "backward", staticmethod(lambda _context, gradient: gradient)
    ),
    "repeated_bias": repeating_the_bias,
}
