"""Synchronous SGD by hand: rank 0 sends every sibling its weights, and after backward each gradient is averaged.

Under torchrun, torch.distributed averages one parameter after the other. Under mpirun, MPI averages all gradients at
once, in memory that the workers of one machine share: `mpirun -np 4 python pytorch_impl/sync_sgd.py --preset digits`.

To start it: `torchrun --nproc-per-node 4 pytorch_impl/sync_sgd.py --preset digits`.
"""

import dataclasses
import sys
from collections.abc import Callable
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
from common.errors import UserError
from common.measurement.run import Run
from pytorch_impl import inputs, model, mpi
from pytorch_impl.strategies import SYNC_SGD
from pytorch_impl.world import join, leave


def main() -> None:
    """Join the world that torchrun or mpirun started and train the model in it, as the command line says."""
    task, options = parse_command_line(SYNC_SGD, __doc__)
    if starter := mpi.starter_of(options):
        if options.backend not in ("auto", "mpi"):
            raise UserError(f"--backend {options.backend}, but mpirun started this: leave it out, or use torchrun.")
        world, device, communicator = mpi.join(task)
        options = dataclasses.replace(options, backend="mpi", mpi_starter=starter)
        run = Run(SYNC_SGD, task, options, world)
        _train(run, device, partial(mpi.send_weights, communicator), mpi.GradientMean(communicator, task))
        return
    if options.backend == "mpi":
        raise UserError("--backend mpi needs mpirun to start it: mpirun -np N python pytorch_impl/sync_sgd.py")
    world, device = join(SYNC_SGD, task, options)
    exchange = sum_gradients if options.broken == "sum" else average_gradients
    _train(Run(SYNC_SGD, task, options, world), device, send_weights, exchange)
    leave()


def _train(
    run: Run,
    device: torch.device,
    send_weights: Callable[[list[nn.Parameter]], None],
    average_gradients: Callable[[list[nn.Parameter]], None],
) -> None:
    task, options = run.task, run.options
    network = model.build_model(task, options.precision).to(device)
    optimizer = model.build_optimizer(task, network)
    schedule = model.build_schedule(task, optimizer, run.first_step)
    model.load_state(task, network, optimizer, run.initial_state)
    parameters = list(network.parameters())
    send_weights(parameters)
    load = inputs.loader(run, device)
    run.export_with(lambda: model.export_state(task, network, optimizer), lambda: model.held_bytes(network, optimizer))

    for batch in run.steps():
        features, labels = load(batch)
        optimizer.zero_grad()
        loss = cross_entropy(network(features), labels)
        loss.backward()
        if options.exchange:
            # The line that makes it distributed: without it each worker steps by its own gradients.
            average_gradients(parameters)
        optimizer.step()
        schedule.step()
        run.observe(loss.detach(), rows=len(labels))
    run.finish()


def send_weights(parameters: list[nn.Parameter]) -> None:
    """Send rank 0's weights, point to point, to every sibling."""
    for parameter in parameters:
        if dist.get_rank() > 0:
            dist.recv(parameter.data, src=0)
            continue
        for sibling in range(1, dist.get_world_size()):
            dist.send(parameter.data, dst=sibling)


def average_gradients(parameters: list[nn.Parameter]) -> None:
    """Sum every parameter's gradient over all workers, one after the other, and divide by the number of workers.

    Each worker's loss is the mean over its rows, and all workers have equally many rows. So the mean of the gradients
    is the gradient of the mean over the global batch.
    """
    for parameter in parameters:
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
        parameter.grad /= dist.get_world_size()


def sum_gradients(parameters: list[nn.Parameter]) -> None:
    """What a well-known post does in its place: it never divides. STUDENTS.md has what comes of it."""
    for parameter in parameters:
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)


if __name__ == "__main__":
    exit_with_one_line(main)
