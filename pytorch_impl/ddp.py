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

from common.config import Config, parse_command_line
from common.errors import UserError
from common.run import Run
from pytorch_impl import inputs, world
from pytorch_impl import model as contract


def main() -> None:
    """Join the world that torchrun started and train the MLP in it, as the command line says."""
    config = parse_command_line(__doc__)
    if config.gradient_hook == "bf16" and not dist.is_nccl_available():
        # Gloo could carry bfloat16, but register_comm_hook asks for these and not for the backend.
        raise UserError(
            "--gradient-hook bf16: DistributedDataParallel takes it only in builds of torch with CUDA and NCCL: "
            "choose fp16, or install such a build."
        )
    run, device = world.join(config, "torch_ddp")
    _train(config, run, device)
    world.leave()


def _train(config: Config, run: Run, device: torch.device) -> None:
    model = contract.build_model(config).to(device)
    optimizer = contract.build_optimizer(config, model)
    schedule = contract.build_schedule(config, optimizer, run.first_step)
    contract.load_state(config, model, optimizer, run.initial_state)
    # The line that makes it distributed: the constructor broadcasts rank 0's weights, and hooks on every parameter
    # all-reduce the gradients, bucket by bucket, while backward still computes the rest.
    model = DistributedDataParallel(
        model,
        bucket_cap_mb=config.bucket_megabytes,
        static_graph=config.static_graph,
        gradient_as_bucket_view=config.bucket_views,
    )
    _register_gradient_hook(config, model)
    exchange = nullcontext if config.exchange else model.no_sync
    take = inputs.prepare(run, device)

    for batch in run.steps():
        features, labels = take(batch)
        optimizer.zero_grad()
        with exchange():
            loss = cross_entropy(model(features), labels)
            loss.backward()
        optimizer.step()
        schedule.step()
        if config.check_replicas:
            run.check_replicas(contract.export_state(config, model, optimizer))
        run.observe(loss.detach())
        if run.checkpoint_due:
            run.checkpoint(contract.export_state(config, model, optimizer))
    run.finish(contract.export_state(config, model, optimizer), contract.held_bytes(model, optimizer))


def _register_gradient_hook(config: Config, model: DistributedDataParallel) -> None:
    """Exchange something smaller than the gradients, which changes the maths, where `--gradient-hook` says so."""
    if config.gradient_hook == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif config.gradient_hook == "bf16":
        model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    elif config.gradient_hook == "powersgd":
        # Vogels et al., "PowerSGD", 2019; from the second step on (PyTorch allows no earlier one with error feedback).
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=4, start_powerSGD_iter=2)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)


if __name__ == "__main__":
    exit_with_one_line(main)
