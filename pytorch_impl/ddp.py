"""DistributedDataParallel: one process per worker, each with a whole replica; gradients are averaged during backward.

To start it: `torchrun --nproc-per-node 4 pytorch_impl/ddp.py --preset digits`.
"""

import os
import sys
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import UserError, exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("torch")

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from common import machine
from common.config import Config, check_world_size, parse_command_line
from common.run import Run
from pytorch_impl import model as contract
from pytorch_impl import world


def main() -> None:
    """Join the world that torchrun started and train the MLP in it, as the command line says."""
    config = parse_command_line(__doc__)
    if "RANK" not in os.environ:
        raise UserError("torch_ddp is started by torchrun: torchrun --nproc-per-node N pytorch_impl/ddp.py")
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    local_rank, local_world_size = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    check_world_size(config, world_size, "torchrun")
    placement = machine.pin(config, local_rank, local_world_size)
    device = contract.choose_device(config, local_rank, local_world_size)

    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=timedelta(seconds=config.deadline_seconds))
    run = Run(
        config,
        strategy="torch_ddp",
        framework="torch",
        placement=placement,
        rank=rank,
        world_size=world_size,
        backend=backend,
        device=contract.device_name(device),
        all_gather=world.all_gather,
        synchronize=partial(contract.synchronize, device),
    )
    _train(config, run, device)
    world.leave()


def _train(config: Config, run: Run, device: torch.device) -> None:
    model = contract.build_model(config).to(device)
    optimizer = contract.build_optimizer(config, model)
    schedule = contract.build_schedule(config, optimizer, run.first_step)
    contract.load_state(config, model, optimizer, run.initial_state)
    # The line that makes it distributed: the constructor broadcasts rank 0's weights, and hooks on every parameter
    # all-reduce the gradients, bucket by bucket, while backward still computes the rest.
    model = DistributedDataParallel(model)
    exchange = nullcontext if config.exchange else model.no_sync

    for batch in run.steps():
        features, labels = contract.to_tensors(batch, device)
        optimizer.zero_grad()
        with exchange():
            loss = cross_entropy(model(features), labels)
            loss.backward()
        optimizer.step()
        schedule.step()
        run.observe(loss.detach())
        if run.checkpoint_due:
            run.checkpoint(contract.export_state(config, model, optimizer))
    run.finish(contract.export_state(config, model, optimizer))


if __name__ == "__main__":
    exit_with_one_line(main)
