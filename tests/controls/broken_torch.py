"""What breaks the exchange of several of PyTorch's strategies."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.controls.generic import apart_with


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


def gradients_of_the_step_before():
    """A function that gives a parameter's gradient of the last time that it was called with it."""
    last = {}

    def swap(parameter):
        before, last[parameter] = last.get(parameter, parameter.grad), parameter.grad.clone()
        return before

    return swap


def twice_in_step_50():
    """A function that gives a parameter's gradient, and twice that when rank 1 calls it for step 50."""
    # torchrun's, or horovodrun's.
    rank, calls = int(os.environ.get("RANK") or os.environ["HOROVOD_RANK"]), Counter()

    def change(parameter):
        calls[parameter] += 1
        return parameter.grad * (2 if rank == 1 and calls[parameter] == 51 else 1)

    return change


def with_other(script, **functions) -> AbstractContextManager:
    """The script calls other functions of torch.distributed, and nobody else does."""
    return patch.dict(script, dist=SimpleNamespace(**vars(dist) | functions))


def with_ddp(before=lambda module: None, after=lambda wrapped: None, **changed) -> AbstractContextManager:
    """Every DistributedDataParallel is made with changed options, by whichever library, and changed before or after."""

    def begin(wrapped, module, *arguments, begin=DistributedDataParallel.__init__, **options):
        before(module)
        begin(wrapped, module, *arguments, **options | changed)
        after(wrapped)

    return patch.object(DistributedDataParallel, "__init__", begin)


def sum_in_buckets(wrapped):
    def hook(_state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda future: future.value()[0])

    wrapped.register_comm_hook(None, hook)


def leave_out_the_first(module):
    """Tell DistributedDataParallel not to exchange the first of the module's parameters."""
    name, _ = next(module.named_parameters())
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, [name])


OF_GRADIENTS = {
    # The controls have two workers.
    "sum": lambda script: scaled(2),
    "float16": lambda script: changed_gradients(rounded),
    "one_step_old": lambda script: changed_gradients(gradients_of_the_step_before()),
}
OF_REPLICAS = OF_GRADIENTS | {"diverged": lambda script: changed_gradients(twice_in_step_50())}
OF_DDP = OF_REPLICAS | {
    "sum": lambda script: with_ddp(after=sum_in_buckets),
    "one_left_out": lambda script: with_ddp(before=leave_out_the_first),
    "skipped_broadcast": lambda script: apart_with(with_ddp(init_sync=False)),
}
