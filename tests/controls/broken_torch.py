"""What breaks the exchange of several of PyTorch's strategies."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


@contextmanager
def changed_gradients(change: Callable[[torch.nn.Parameter], torch.Tensor]) -> Iterator[None]:
    """A context in which every SGD steps with other gradients, of the parameters that it has, than they got.

    An optimizer that wraps another one, as Horovod's and ZeRO's do, exchanges before.
    """

    def step(optimizer, *arguments, step=torch.optim.SGD.step):
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = change(parameter)
        return step(optimizer, *arguments)

    with patch.object(torch.optim.SGD, "step", step):
        yield


def rounded(parameter):
    return parameter.grad.half().float()


def scaled(factor):
    return changed_gradients(lambda parameter: parameter.grad * factor)


def one_step_old():
    """A context in which every step but the first takes the gradients of the step before."""
    return changed_gradients(gradients_of_the_step_before())


def gradients_of_the_step_before():
    """A function that gives a parameter's gradient of the last time that it was called with it."""
    last = {}

    def swap(parameter):
        before, last[parameter] = last.get(parameter, parameter.grad), parameter.grad.clone()
        return before

    return swap


def diverging():
    """A context in which rank 1, and no other, takes twice the gradients in step 50."""
    return changed_gradients(twice_in_step_50())


def twice_in_step_50():
    """A function that gives a parameter's gradient, and twice that when rank 1 calls it for step 50."""
    # torchrun's, or horovodrun's.
    rank, calls = int(os.environ.get("RANK") or os.environ["HOROVOD_RANK"]), Counter()

    def change(parameter):
        calls[parameter] += 1
        return parameter.grad * (2 if rank == 1 and calls[parameter] == 51 else 1)

    return change


def sum_hook(_state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """For DistributedDataParallel: a sum in place of its mean."""
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def summing(model, **options):
    """DistributedDataParallel with `sum_hook`."""
    wrapped = DistributedDataParallel(model, **options)
    wrapped.register_comm_hook(None, sum_hook)
    return wrapped


def leaving_one_out(model, **options):
    """DistributedDataParallel that exchanges all parameters but the first layer's weight."""
    leave_out_the_first(model)
    return DistributedDataParallel(model, **options)


def leave_out_the_first(model):
    """Tell DistributedDataParallel not to exchange the first of the model's parameters."""
    name, _ = next(model.named_parameters())
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, [name])
