"""A hand-written DistributedDataParallel: hooks all-reduce gradients while backward still computes the rest.

The wrapper takes sixty lines, and is as easy to use as the built-in one.

To start it: `torchrun --nproc-per-node 4 pytorch_impl/hook_ddp.py --preset digits`.
"""

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("torch")

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

from common.declarations.arguments import parse_command_line
from common.measurement.run import Run
from pytorch_impl import inputs, model
from pytorch_impl.strategies import HOOK_DDP
from pytorch_impl.world import join, leave


def main() -> None:
    """Join the world that torchrun started and train the model in it, as the command line says."""
    task, options = parse_command_line(HOOK_DDP, __doc__)
    world, device = join(HOOK_DDP, task, options)
    _train(Run(HOOK_DDP, task, options, world), device)
    leave()


def _train(run: Run, device: torch.device) -> None:
    task, options = run.task, run.options
    network = model.build_model(task, options.precision).to(device)
    optimizer = model.build_optimizer(task, network)
    schedule = model.build_schedule(task, optimizer, run.first_step)
    model.load_state(task, network, optimizer, run.initial_state)
    # The line that makes it distributed: rank 0's weights are broadcast here, and gradients averaged in every backward.
    network = HookDDP(network, int((options.bucket_megabytes or 25) * 2**20), options.exchange)
    load = inputs.loader(run, device)
    run.export_with(lambda: model.export_state(task, network, optimizer), lambda: model.held_bytes(network, optimizer))

    for batch in run.steps():
        features, labels = load(batch)
        optimizer.zero_grad()
        loss = cross_entropy(network(features), labels)
        loss.backward()
        optimizer.step()
        schedule.step()
        run.observe(loss.detach(), rows=len(labels))
    run.finish()


class HookDDP(nn.Module):
    """Wraps a module so that `backward` leaves the mean over all workers in every parameter's `grad`.

    Parameters are put into buckets in reverse order, since backward makes their gradients in about that order. Each
    bucket is all-reduced, beside the rest of backward, as soon as its last gradient is there (Li et al., "PyTorch
    Distributed: Experiences on Accelerating Data Parallel Training", 2020, section 3.2).
    """

    def __init__(self, module: nn.Module, bucket_bytes: int, exchange: bool) -> None:
        super().__init__()
        self.module = module
        for parameter in module.parameters():
            dist.broadcast(parameter.data, src=0)
        self._works: list[dist.Work] = []
        if exchange:
            for bucket in _cut_into_buckets(list(module.parameters())[::-1], bucket_bytes):
                self._watch(bucket)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """The output of the wrapped module."""
        return self.module(features)

    def _watch(self, bucket: list[nn.Parameter]) -> None:
        """Start the all-reduce of the bucket's gradients whenever backward has made the last of them."""
        sizes = [parameter.numel() for parameter in bucket]
        flat = torch.empty(sum(sizes), device=bucket[0].device)
        ready = 0

        def on_gradient(share: torch.Tensor, parameter: nn.Parameter) -> None:
            nonlocal ready
            # Copy the gradient while it is in the cache. From here on it is a view of the bucket.
            torch.div(parameter.grad, dist.get_world_size(), out=share)
            parameter.grad = share
            ready = (ready + 1) % len(bucket)
            if ready == 0:
                if not self._works:
                    # torch runs this callback at the end of the current backward, so no caller has to wait by hand.
                    torch.autograd.Variable._execution_engine.queue_callback(self._wait)
                self._works.append(dist.all_reduce(flat, async_op=True))

        for parameter, part in zip(bucket, flat.split(sizes), strict=True):
            parameter.register_post_accumulate_grad_hook(partial(on_gradient, part.view_as(parameter)))

    def _wait(self) -> None:
        for work in self._works:
            work.wait()
        self._works.clear()


def _cut_into_buckets(parameters: list[nn.Parameter], bucket_bytes: int) -> list[list[nn.Parameter]]:
    """The parameters in order, in lists that each end once they hold `bucket_bytes`."""
    buckets: list[list[nn.Parameter]] = [[]]
    for parameter in parameters:
        if sum(member.numel() * member.element_size() for member in buckets[-1]) >= bucket_bytes:
            buckets.append([])
        buckets[-1].append(parameter)
    return buckets


if __name__ == "__main__":
    exit_with_one_line(main)
