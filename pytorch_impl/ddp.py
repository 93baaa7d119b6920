"""DistributedDataParallel: one process per worker, each with a whole replica; gradients are averaged during backward.

To start it: `torchrun --nproc-per-node 4 pytorch_impl/ddp.py --preset digits`.
"""

import sys
from contextlib import nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("torch")

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from common.declarations.arguments import parse_command_line
from common.errors import UserError
from common.measurement.run import Run
from pytorch_impl import inputs, model
from pytorch_impl.strategies import DDP
from pytorch_impl.world import join, leave


def main() -> None:
    """Join the world that torchrun started and train the model in it, as the command line says."""
    task, options = parse_command_line(DDP, __doc__)
    if options.gradient_hook == "bf16" and not dist.is_nccl_available():
        # Gloo could carry bfloat16, but register_comm_hook requires CUDA and NCCL whatever the backend is.
        raise UserError(
            "--gradient-hook bf16: DistributedDataParallel takes it only in builds of torch with CUDA and NCCL: "
            "choose fp16, or install such a build."
        )
    world, device = join(DDP, task, options)
    _train(Run(DDP, task, options, world), device)
    leave()


def _train(run: Run, device: torch.device) -> None:
    task, options = run.task, run.options
    network = model.build_model(task, options.precision).to(device)
    optimizer = model.build_optimizer(task, network)
    schedule = model.build_schedule(task, optimizer, run.first_step)
    model.load_state(task, network, optimizer, run.initial_state)
    # The line that makes it distributed: the constructor broadcasts rank 0's weights, and hooks on every parameter
    # all-reduce the gradients, bucket by bucket, while backward still computes the rest.
    network = DistributedDataParallel(
        network,
        bucket_cap_mb=options.bucket_megabytes,
        static_graph=options.static_graph,
        gradient_as_bucket_view=options.bucket_views,
    )
    _register_gradient_hook(options.gradient_hook, network)
    # no_sync is DDP's way to accumulate gradients: its hooks run, and don't exchange the gradients.
    exchange = nullcontext if options.exchange else network.no_sync
    load = inputs.loader(run, device)
    run.export_with(lambda: model.export_state(task, network, optimizer), lambda: model.held_bytes(network, optimizer))

    for batch in run.steps():
        features, labels = load(batch)
        optimizer.zero_grad()
        with exchange():
            loss = cross_entropy(network(features), labels)
            loss.backward()
        optimizer.step()
        schedule.step()
        run.observe(loss.detach(), rows=len(labels))
    run.finish()


def _register_gradient_hook(hook: str, network: DistributedDataParallel) -> None:
    """Have DDP exchange smaller gradients, as `--gradient-hook` asks. Changes the maths."""
    if hook == "fp16":
        network.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif hook == "bf16":
        network.register_comm_hook(None, default_hooks.bf16_compress_hook)
    elif hook == "powersgd":
        # Vogels et al., "PowerSGD", 2019; from the second step on (PyTorch allows no earlier one with error feedback).
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=2)
        network.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


if __name__ == "__main__":
    exit_with_one_line(main)
