"""DataParallel: one process; in every step the model is copied to all devices, and the first one gathers their outputs.

On GPUs this is torch.nn.DataParallel. On CPUs that class would run the bare module, so the same scheme is written out
here, with a thread for each replica.

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

from common.declarations.arguments import parse_command_line
from common.errors import UserError
from common.measurement import machine
from common.measurement.run import Run
from common.measurement.world import World
from pytorch_impl import inputs, model
from pytorch_impl.strategies import DATA_PARALLEL


def main() -> None:
    """Train the model on `--workers` replicas in this process, as the command line says."""
    task, options = parse_command_line(DATA_PARALLEL, __doc__)
    world_size = task.workers or 1
    pinning = machine.pin(task, local_world_size=world_size, replicas=world_size)
    device = model.choose_device(task, local_rank=0, local_world_size=world_size)
    if device.type == "cuda" and not options.exchange:
        raise UserError("--no-exchange: nn.DataParallel can't leave its gradients where they are; leave it out.")

    world = World(
        pinning=pinning,
        size=world_size,
        backend="threads" if device.type == "cpu" else "nccl",
        device=model.device_name(device),
        synchronize=partial(model.synchronize, device),
    )
    _train(Run(DATA_PARALLEL, task, options, world), device)


def _train(run: Run, device: torch.device) -> None:
    task, options = run.task, run.options
    network = model.build_model(task, options.precision).to(device)
    optimizer = model.build_optimizer(task, network)
    schedule = model.build_schedule(task, optimizer, run.first_step)
    model.load_state(task, network, optimizer, run.initial_state)
    # The line that makes it distributed on GPUs; on CPUs `forward_backward` has it.
    parallel = nn.DataParallel(network, list(range(run.world.size))) if device.type == "cuda" else None
    threads = ThreadPoolExecutor(run.world.size, initializer=torch.set_num_threads, initargs=(task.threads,))
    load = inputs.loader(run, device)
    run.export_with(lambda: model.export_state(task, network, optimizer), lambda: model.held_bytes(network, optimizer))

    for batch in run.steps():
        features, labels = load(batch)
        optimizer.zero_grad()
        if parallel:
            losses = cross_entropy(parallel(features), labels, reduction="none")
            losses.mean().backward()
        else:
            losses = forward_backward(network, threads, features, labels, run.world.size, options.exchange)
        optimizer.step()
        schedule.step()
        run.observe(losses.detach().view(run.world.size, -1).mean(dim=1), rows=len(labels))
    run.finish()


def forward_backward(
    network: nn.Module,
    threads: ThreadPoolExecutor,
    features: torch.Tensor,
    labels: torch.Tensor,
    world_size: int,
    exchange: bool,
) -> torch.Tensor:
    """Return the loss of every row of a batch, (rows,), as nn.DataParallel computes it.

    Leaves the gradients of the mean loss in `network`, the primary replica.
    """
    # Replicate the model with its current weights, and scatter the batch.
    replicas = [network, *(copy.deepcopy(network) for _ in range(world_size - 1))]
    # The line that makes it distributed on CPUs: each replica computes on its part of the batch, in its own thread.
    outputs = list(threads.map(nn.Module.__call__, replicas, features.chunk(world_size)))
    # Gather the outputs on the primary, which computes the loss, and scatter the loss's gradient.
    gathered = torch.cat([output.detach() for output in outputs]).requires_grad_()
    losses = cross_entropy(gathered, labels, reduction="none")
    losses.mean().backward()
    list(threads.map(torch.Tensor.backward, outputs, gathered.grad.chunk(world_size)))
    # Reduce the replicas' gradients on the primary.
    if exchange:
        for parameter, *copies in zip(*(replica.parameters() for replica in replicas), strict=True):
            for copied in copies:
                parameter.grad.add_(copied.grad)
    return losses


if __name__ == "__main__":
    exit_with_one_line(main)
