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

from common.config import Config, parse_command_line
from common.mlp import State
from common.run import Run
from pytorch_impl import inputs, world
from pytorch_impl import model as contract


def main() -> None:
    """Join the world that torchrun started and train the MLP in it, as the command line says."""
    config = parse_command_line(__doc__)
    run, device = world.join(config, "torch_zero")
    _train(config, run, device)
    world.leave()


def _train(config: Config, run: Run, device: torch.device) -> None:
    model = contract.build_model(config).to(device)
    # The line that makes it sharded: each parameter has one owner, which keeps its momentum, updates it and broadcasts
    # it to the others.
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(),
        optimizer_class=torch.optim.SGD,
        lr=config.learning_rate,
        momentum=config.momentum,
        weight_decay=config.weight_decay,
    )
    schedule = contract.build_schedule(config, optimizer, run.first_step)
    contract.load_state(config, model, optimizer.optim, run.initial_state)
    model = DistributedDataParallel(model)
    exchange = nullcontext
    if not config.exchange:
        exchange = model.no_sync
        optimizer._sync_params = lambda: None  # ZeRO has no switch of its own for its broadcasts.
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
            run.check_replicas(_export_state(config, model, optimizer))
        run.observe(loss.detach())
        if run.checkpoint_due:
            run.checkpoint(_export_state(config, model, optimizer))
    run.finish(_export_state(config, model, optimizer), contract.held_bytes(model, optimizer.optim))


def _export_state(config: Config, model: nn.Module, optimizer: ZeroRedundancyOptimizer) -> State:
    """The weights, and the momentum that each worker alone keeps of its own part, gathered from all."""
    state = contract.export_state(config, model, optimizer.optim)
    if config.momentum:
        for part in world.all_gather({name: value for name, value in state.items() if name.endswith(".momentum")}):
            state |= part
    return state


if __name__ == "__main__":
    exit_with_one_line(main)
