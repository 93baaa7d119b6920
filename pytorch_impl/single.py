"""One process, no distribution: the baseline of every speed-up of PyTorch's strategies.

To start it: `python pytorch_impl/single.py --preset digits`.
"""

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("torch")

import torch
from torch.nn.functional import cross_entropy

from common.declarations.arguments import check_world_size, parse_command_line
from common.measurement import machine
from common.measurement.run import Run
from common.measurement.world import World
from pytorch_impl import inputs, model
from pytorch_impl.strategies import SINGLE


def main() -> None:
    """Train the model in this process, as the command line says."""
    task, options = parse_command_line(SINGLE, __doc__)
    check_world_size(task, 1, "torch_single")
    pinning = machine.pin(task)
    device = model.choose_device(task, local_rank=0, local_world_size=1)

    world = World(pinning=pinning, device=model.device_name(device), synchronize=partial(model.synchronize, device))
    _train(Run(SINGLE, task, options, world), device)


def _train(run: Run, device: torch.device) -> None:
    task, options = run.task, run.options
    network = model.build_model(task, options.precision).to(device)
    optimizer = model.build_optimizer(task, network)
    schedule = model.build_schedule(task, optimizer, run.first_step)
    model.load_state(task, network, optimizer, run.initial_state)
    load = inputs.loader(run, device)
    network = model.as_executed(network, options.execution, torch.zeros(task.batch, task.dimensions[0], device=device))
    run.export_with(lambda: model.export_state(task, network, optimizer), lambda: model.held_bytes(network, optimizer))

    for batch in run.steps():
        features, labels = load(batch)
        optimizer.zero_grad()
        loss = cross_entropy(network(features), labels)
        loss.backward()
        optimizer.step()
        schedule.step()
        run.observe(loss.detach(), rows=len(labels))
    run.finish()


if __name__ == "__main__":
    exit_with_one_line(main)
