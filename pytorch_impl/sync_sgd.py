"""Synchronous SGD by hand: rank 0 sends every sibling its weights, and after backward each gradient is averaged.

With torchrun parameter by parameter over torch.distributed; with mpirun all gradients at once over MPI, through memory
that the workers of one machine share: `mpirun -np 4 python pytorch_impl/sync_sgd.py --preset digits`.

To start it: `torchrun --nproc-per-node 4 pytorch_impl/sync_sgd.py --preset digits`.
"""

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

from common.config import Config, parse_command_line
from common.errors import UserError
from common.run import Run
from pytorch_impl import inputs, mpi, world
from pytorch_impl import model as contract


def main() -> None:
    """Join the world that torchrun or mpirun started and train the MLP in it, as the command line says."""
    config = parse_command_line(__doc__)
    if mpi.is_launched():
        mpi.require_mpi4py()
        if config.backend not in ("auto", "mpi"):
            raise UserError(f"--backend {config.backend}, but mpirun started this: leave it out, or use torchrun.")
        run, device, workers = mpi.join(config, "torch_sync_sgd")
        _train(run.config, run, device, partial(mpi.send_weights, workers), mpi.GradientMean(workers, config))
        return
    if config.backend == "mpi":
        raise UserError("--backend mpi needs mpirun to start it: mpirun -np N python pytorch_impl/sync_sgd.py")
    run, device = world.join(config, "torch_sync_sgd")
    _train(config, run, device, send_weights, average_gradients)
    world.leave()


def _train(
    config: Config,
    run: Run,
    device: torch.device,
    send_weights: Callable[[list[nn.Parameter]], None],
    average_gradients: Callable[[list[nn.Parameter]], None],
) -> None:
    model = contract.build_model(config).to(device)
    optimizer = contract.build_optimizer(config, model)
    schedule = contract.build_schedule(config, optimizer, run.first_step)
    contract.load_state(config, model, optimizer, run.initial_state)
    parameters = list(model.parameters())
    send_weights(parameters)
    take = inputs.prepare(run, device)

    for batch in run.steps():
        features, labels = take(batch)
        optimizer.zero_grad()
        loss = cross_entropy(model(features), labels)
        loss.backward()
        if config.exchange:
            # The line that makes it distributed.
            average_gradients(parameters)
        optimizer.step()
        schedule.step()
        if config.check_replicas:
            run.check_replicas(contract.export_state(config, model, optimizer))
        run.observe(loss.detach())
        if run.checkpoint_due:
            run.checkpoint(contract.export_state(config, model, optimizer))
    run.finish(contract.export_state(config, model, optimizer), contract.held_bytes(model, optimizer))


def send_weights(parameters: list[nn.Parameter]) -> None:
    """Rank 0's weights, point to point, to every sibling."""
    for parameter in parameters:
        if dist.get_rank() > 0:
            dist.recv(parameter.data, src=0)
            continue
        for sibling in range(1, dist.get_world_size()):
            dist.send(parameter.data, dst=sibling)


def average_gradients(parameters: list[nn.Parameter]) -> None:
    """Sum every parameter's gradient over all workers, one after the other, and divide by their number.

    Each worker's loss is the mean over its rows, and all have as many, so the mean of the gradients is the gradient of
    the mean over the global batch.
    """
    for parameter in parameters:
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
        parameter.grad /= dist.get_world_size()


if __name__ == "__main__":
    exit_with_one_line(main)
