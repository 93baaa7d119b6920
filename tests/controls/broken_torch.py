"""What breaks the maths of PyTorch's strategies, whose scripts are started after it."""

from functools import partialmethod

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_pre_hook

from common import mlp
from common.run import Run
from pytorch_impl import model as contract


def change_gradients(change):
    """Every SGD steps with changed gradients, those of the parameters that it has."""

    def before_step(optimizer, _arguments, _options):
        # An optimizer that wraps another one, as ZeRO's does, comes here too.
        if isinstance(optimizer, torch.optim.SGD):
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    parameter.grad = change(parameter.grad)

    register_optimizer_step_pre_hook(before_step)


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


def start_apart():
    """The contract's weights, moved by 0.001 for every rank, before any broadcast."""
    load = contract.load_state

    def load_apart(config, model, optimizer, state):
        load(config, model, optimizer, {name: value + 0.001 * dist.get_rank() for name, value in state.items()})

    contract.load_state = load_apart


def break_maths(control: str) -> None:
    """Put the control's error in place of what the strategies use. Raises ValueError for one that isn't known here."""
    if control == "unsharded":
        Run.steps = partialmethod(Run.steps, whole_batch=True)
    elif control == "scaled_rate":
        rate = mlp.learning_rate
        mlp.learning_rate = lambda config, step: config.workers * rate(config, step)
    elif control == "float16":
        change_gradients(rounded)
    elif control == "apart_then_broadcast":
        start_apart()
    else:
        raise ValueError(control)
