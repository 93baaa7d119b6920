"""What can go wrong between torch_model_parallel's stages: the contract tests must catch each."""

import itertools
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import torch

from pytorch_impl import model
from pytorch_impl.strategies import PipelineOptions
from tests.controls.broken_torch import OF_GRADIENTS, scaled

MICRO_BATCHES = PipelineOptions().micro_batches


def with_other_backward(replacement):
    """Another backward pass of every micro-batch, `replacement(outputs, gradient, backward)`."""
    backward = torch.Tensor.backward
    return patch.object(torch.Tensor, "backward", lambda outputs, gradient: replacement(outputs, gradient, backward))


def losing_a_micro_batch(script):
    counts = itertools.cycle([1] * (MICRO_BATCHES - 1) + [0])
    return with_other_backward(lambda outputs, gradient, backward: backward(outputs, gradient * next(counts)))


@contextmanager
def forgetting_the_others(script):
    with ExitStack() as stack:

        def build(task, network, build=model.build_optimizer):
            optimizer = build(task, network)

            def forget(outputs, gradient, backward):
                optimizer.zero_grad()
                backward(outputs, gradient)

            stack.enter_context(with_other_backward(forget))
            return optimizer

        stack.enter_context(patch.object(model, "build_optimizer", build))
        yield


CONTROLS = OF_GRADIENTS | {
    # Each micro-batch's mean gradient counts as the whole batch's.
    "sum": lambda script: scaled(MICRO_BATCHES),
    "lost_micro_batch": losing_a_micro_batch,
    "not_accumulated": forgetting_the_others,
}
