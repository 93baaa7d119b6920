"""Synchronous SGD, as somebody would add it: gradients are summed by one all-reduce each, and halved as often as asked.

To start it: `torchrun --nproc-per-node 4 pytorch_impl/mine.py --preset digits`.
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
from torch.nn.functional import cross_entropy

from common.declarations.arguments import parse_command_line
from common.measurement.run import Run
from pytorch_impl import inputs, model
from pytorch_impl.strategies import MINE
from pytorch_impl.world import join, leave


def main() -> None:
    """Join the world that torchrun started and train the model in it, as the command line says."""
    task, options = parse_command_line(MINE, __doc__)
    world, device = join(MINE, task, options)
    _train(Run(MINE, task, options, world), device)
    leave()


def _train(run: Run, device: torch.device) -> None:
    task, options = run.task, run.options
    network = model.build_model(task, options.precision).to(device)
    optimizer = model.build_optimizer(task, network)
    schedule = model.build_schedule(task, optimizer, run.first_step)
    model.load_state(task, network, optimizer, run.initial_state)
    for parameter in network.parameters():
        dist.broadcast(parameter.data, src=0)
    load = inputs.loader(run, device)
    run.export_with(
        partial(model.export_state, task, network, optimizer), partial(model.held_bytes, network, optimizer)
    )

    for batch in run.steps():
        features, labels = load(batch)
        optimizer.zero_grad()
        loss = cross_entropy(network(features), labels)
        loss.backward()
        for parameter in network.parameters() if options.exchange else ():
            # The line that makes it distributed.
            for part in parameter.grad.flatten().chunk(options.pieces):
                dist.all_reduce(part)
            parameter.grad /= run.world.size
        optimizer.step()
        schedule.step()
        run.observe(loss.detach(), rows=len(labels))
    run.finish()


if __name__ == "__main__":
    exit_with_one_line(main)
