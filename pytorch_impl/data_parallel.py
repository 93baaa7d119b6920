"""DataParallel: one process; in every step the model is copied to all devices, and the first one gathers their outputs.

torch.nn.DataParallel where each replica has a GPU. On CPUs, where that would run the bare module, the same scheme is
spelled out here, with a thread for each replica.

To start it: `python pytorch_impl/data_parallel.py --workers 4 --preset digits`.
"""

import copy
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("torch")

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from common import machine
from common.config import Config, parse_command_line
from common.errors import UserError
from common.run import Run
from pytorch_impl import inputs
from pytorch_impl import model as contract


def main() -> None:
    """Train the MLP on `--workers` replicas in this process, as the command line says."""
    config = parse_command_line(__doc__)
    world_size = config.workers or 1
    placement = machine.pin(config, local_world_size=world_size, replicas=world_size)
    device = contract.choose_device(config, local_rank=0, local_world_size=world_size)
    if device.type == "cuda" and not config.exchange:
        raise UserError("--no-exchange: nn.DataParallel can't leave its gradients where they are; leave it out.")

    run = Run(
        config,
        strategy="torch_data_parallel",
        framework="torch",
        placement=placement,
        world_size=world_size,
        replicas=world_size,
        backend="threads" if device.type == "cpu" else "nccl",
        device=contract.device_name(device),
        synchronize=partial(contract.synchronize, device),
    )
    _train(config, run, device)


def _train(config: Config, run: Run, device: torch.device) -> None:
    model = contract.build_model(config).to(device)
    optimizer = contract.build_optimizer(config, model)
    schedule = contract.build_schedule(config, optimizer, run.first_step)
    contract.load_state(config, model, optimizer, run.initial_state)
    # The line that makes it distributed on GPUs; on CPUs it is `forward_backward`.
    parallel = nn.DataParallel(model, list(range(run.world_size))) if device.type == "cuda" else None
    threads = ThreadPoolExecutor(run.world_size, initializer=torch.set_num_threads, initargs=(config.threads,))
    take = inputs.prepare(run, device)

    for batch in run.steps():
        features, labels = take(batch)
        optimizer.zero_grad()
        if parallel:
            loss = cross_entropy(parallel(features), labels)
            loss.backward()
        else:
            loss = forward_backward(config, model, threads, features, labels, run.world_size)
        optimizer.step()
        schedule.step()
        run.observe(loss.detach())
        if run.checkpoint_due:
            run.checkpoint(contract.export_state(config, model, optimizer))
    run.finish(contract.export_state(config, model, optimizer), contract.held_bytes(model, optimizer))


def forward_backward(
    config: Config,
    model: nn.Module,
    threads: ThreadPoolExecutor,
    features: torch.Tensor,
    labels: torch.Tensor,
    world_size: int,
) -> torch.Tensor:
    """The loss of a batch, and its gradients in `model`, the primary replica, as nn.DataParallel computes them."""
    # Replicate the model as it now is, and scatter the batch.
    replicas = [model, *(copy.deepcopy(model) for _ in range(world_size - 1))]
    outputs = list(threads.map(nn.Module.__call__, replicas, features.chunk(world_size)))
    # Gather the outputs on the primary, which computes the loss, and scatter the loss's gradient.
    gathered = torch.cat([output.detach() for output in outputs]).requires_grad_()
    loss = cross_entropy(gathered, labels)
    loss.backward()
    list(threads.map(torch.Tensor.backward, outputs, gathered.grad.chunk(world_size)))
    # Reduce the replicas' gradients on the primary.
    if config.exchange:
        for parameter, *copies in zip(*(replica.parameters() for replica in replicas), strict=True):
            for each in copies:
                parameter.grad.add_(each.grad)
    return loss


if __name__ == "__main__":
    exit_with_one_line(main)
