"""What breaks the exchange of several of PyTorch's strategies."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_pre_hook


@contextmanager
def changed_gradients(change: Callable[[torch.Tensor], torch.Tensor]) -> Iterator[None]:
    """A context in which every SGD steps with changed gradients, those of the parameters that it has."""

    def before_step(optimizer, _arguments, _options):
        # An optimizer that wraps another one, as ZeRO's does, comes here too.
        if isinstance(optimizer, torch.optim.SGD):
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    parameter.grad = change(parameter.grad)

    hook = register_optimizer_step_pre_hook(before_step)
    try:
        yield
    finally:
        hook.remove()


def rounded(gradient):
    return gradient.half().float()


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
    name, _ = next(model.named_parameters())
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, [name])
    return DistributedDataParallel(model, **options)
