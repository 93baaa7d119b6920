"""torch_tensor_parallel, its exchange broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import torch.distributed as dist
from torch.nn.functional import linear

from pytorch_impl import tensor_parallel
from pytorch_impl.tensor_parallel import SplitByInputs, Sum, SumGradients
from tests.controls.broken_torch import change_gradients, rounded

CONTROLS = ("sum", "float16", "missing_gradient_sum", "repeated_bias")
CONTROL = os.environ["LOCKSTEP_CONTROL"]


def sum_again(_context, gradient):
    gradient = gradient.contiguous()
    dist.all_reduce(gradient)
    return gradient


def forward_with_own_bias(layer, features):
    return Sum.apply(linear(features, layer.weight, layer.bias))


if CONTROL == "sum":
    # What a differentiable all-reduce does that takes its backward for its forward's mirror image.
    Sum.backward = staticmethod(sum_again)
elif CONTROL == "float16":
    change_gradients(rounded)
elif CONTROL == "missing_gradient_sum":
    SumGradients.backward = staticmethod(lambda _context, gradient: gradient)
elif CONTROL == "repeated_bias":
    SplitByInputs.forward = forward_with_own_bias
tensor_parallel.main()
