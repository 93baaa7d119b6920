"""ZeRO, stage 1: as DistributedDataParallel, but each worker keeps, and steps with, a part of the optimizer's state.

Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", 2020, section 5.1.

To start it: `torchrun --nproc-per-node 4 pytorch_impl/zero.py --preset digits`.
"""

import sys
from contextlib import nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("torch")

import torch
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from common.contract.model import State
from common.contract.task import Task
from common.declarations.arguments import parse_command_line
from common.measurement.run import Run
from pytorch_impl import inputs, model
from pytorch_impl.strategies import ZERO
from pytorch_impl.world import all_gather, join, leave


def main() -> None:
    """Join the world that torchrun started and train the model in it, as the command line says."""
    task, options = parse_command_line(ZERO, __doc__)
    world, device = join(ZERO, task, options)
    _train(Run(ZERO, task, options, world), device)
    leave()


def _train(run: Run, device: torch.device) -> None:
    task, options = run.task, run.options
    network = model.build_model(task, options.precision).to(device)
    # The line that makes it distributed, and its state sharded: each parameter has one owner, which keeps its momentum,
    # updates it and broadcasts it to the others.
    optimizer = ZeroRedundancyOptimizer(
        network.parameters(),
        optimizer_class=torch.optim.SGD,
        lr=task.learning_rate,
        momentum=task.momentum,
        weight_decay=task.weight_decay,
    )
    schedule = model.build_schedule(task, optimizer, run.first_step)
    model.load_state(task, network, optimizer.optim, run.initial_state)
    # The line that makes it distributed for the gradients: every backward averages them over all workers.
    network = DistributedDataParallel(network)
    exchange = nullcontext
    if not options.exchange:
        exchange = network.no_sync
        optimizer._sync_params = lambda: None  # ZeRO has no option to turn its broadcasts off.
    load = inputs.loader(run, device)
    run.export_with(lambda: _export_state(task, network, optimizer), lambda: model.held_bytes(network, optimizer.optim))

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


def _export_state(task: Task, network: nn.Module, optimizer: ZeroRedundancyOptimizer) -> State:
    """The weights, and the momentum gathered from all workers, of which each keeps only its own part."""
    state = model.export_state(task, network, optimizer.optim)
    if task.momentum:
        for part in all_gather({name: value for name, value in state.items() if name.endswith(".momentum")}):
            state |= part
    return state


if __name__ == "__main__":
    exit_with_one_line(main)
