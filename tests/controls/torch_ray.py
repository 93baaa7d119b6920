"""What can go wrong in torch_ray's exchange: the contract tests must catch each."""

from functools import partial
from unittest.mock import patch

from ray.train.v2.torch import train_loop_utils
from torch.nn.parallel import DistributedDataParallel

from tests.controls.broken_torch import changed_gradients, diverging, leaving_one_out, one_step_old, rounded, summing
from tests.controls.generic import all_of, start_apart


class WithoutBroadcast(DistributedDataParallel):
    """`prepare_model` says a class's name, which a function of another one has not."""

    def __init__(self, model, **options):
        super().__init__(model, init_sync=False, **options)


def with_class(wrapper):
    """What `prepare_model` wraps a model in."""
    return patch.object(train_loop_utils, "DistributedDataParallel", wrapper)


CONTROLS = {
    "sum": lambda script: with_class(summing),
    "one_left_out": lambda script: with_class(leaving_one_out),
    # Ray's own way to leave the model as it is.
    "not_prepared": lambda script: patch.object(
        script["ray"].train.torch,
        "prepare_model",
        partial(script["ray"].train.torch.prepare_model, parallel_strategy=None),
    ),
    "float16": lambda script: changed_gradients(rounded),
    "one_step_old": lambda script: one_step_old(),
    "diverged": lambda script: diverging(),
    "skipped_broadcast": lambda script: all_of(start_apart(), with_class(WithoutBroadcast)),
}
