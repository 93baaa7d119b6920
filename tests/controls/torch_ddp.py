"""torch_ddp with its maths broken as LOCKSTEP_CONTROL says; the contract tests must catch each."""

import os
import sys
from functools import partialmethod
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from common.run import Run
from pytorch_impl import ddp
from pytorch_impl import model as contract


def sum_hook(_state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def float16_hook(_state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    bucket.set_buffer(bucket.buffer().half().float() / dist.get_world_size())
    return sum_hook(_state, bucket)


def hooked(hook):
    def wrap(model):
        wrapped = DistributedDataParallel(model)
        wrapped.register_comm_hook(None, hook)
        return wrapped

    return wrap


def load_apart(config, model, optimizer, state, load=contract.load_state):
    load(config, model, optimizer, state)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.001 * dist.get_rank())


def build_scaled(config, model, build=contract.build_optimizer):
    optimizer = build(config, model)
    optimizer.param_groups[0]["lr"] *= dist.get_world_size()
    return optimizer


def break_maths(control: str) -> None:
    if control == "sum":
        ddp.DistributedDataParallel = hooked(sum_hook)
    elif control == "float16":
        ddp.DistributedDataParallel = hooked(float16_hook)
    elif control == "unsharded":
        Run.steps = partialmethod(Run.steps, whole_batch=True)
    elif control == "scaled_rate":
        contract.build_optimizer = build_scaled
    elif control == "skipped_broadcast":
        contract.load_state = load_apart
        ddp.DistributedDataParallel = lambda model: DistributedDataParallel(model, init_sync=False)
    elif control == "apart_then_broadcast":
        contract.load_state = load_apart
    else:
        raise ValueError(control)


break_maths(os.environ["LOCKSTEP_CONTROL"])
ddp.main()
