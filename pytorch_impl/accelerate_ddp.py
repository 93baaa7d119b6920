"""Hugging Face's Accelerate over DistributedDataParallel: a hand-written loop with an `Accelerator` around its parts.

Accelerate's loaders and schedules assume that each process adds a batch of its own. Here the run hands out the shard,
so no loader is prepared, and the schedule counts updates.

To start it: `torchrun --nproc-per-node 4 pytorch_impl/accelerate_ddp.py --preset digits`.
"""

import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("accelerate")

import torch
from accelerate import Accelerator
from torch.nn.functional import cross_entropy

from common.declarations.arguments import parse_command_line
from common.measurement.run import Run
from pytorch_impl import inputs, model
from pytorch_impl.strategies import ACCELERATE_DDP
from pytorch_impl.world import join, leave


def main() -> None:
    """Join the world that torchrun started and train the model in it, as the command line says."""
    task, options = parse_command_line(ACCELERATE_DDP, __doc__)
    # An Accelerator would make the process group too, but with a timeout and a backend of its own choice.
    world, device = join(ACCELERATE_DDP, task, options)
    _train(Run(ACCELERATE_DDP, task, options, world), device)
    leave()


def _train(run: Run, device: torch.device) -> None:
    task, options = run.task, run.options
    # By default a prepared schedule steps once for each process, as if each process had taken a batch from one epoch.
    accelerator = Accelerator(cpu=device.type == "cpu", step_scheduler_with_optimizer=False)
    network = model.build_model(task, options.precision)
    optimizer = model.build_optimizer(task, network)
    schedule = model.build_schedule(task, optimizer, run.first_step)
    model.load_state(task, network, optimizer, run.initial_state)
    # The line that makes it distributed: `prepare` moves the model and the momentum to the accelerator's device, and
    # wraps the model in a DistributedDataParallel.
    network, optimizer, schedule = accelerator.prepare(network, optimizer, schedule)
    # no_sync is the way to accumulate gradients: DistributedDataParallel's hooks run, and exchange nothing.
    exchange = nullcontext if options.exchange else partial(accelerator.no_sync, network)
    load = inputs.loader(run, device)
    run.export_with(lambda: model.export_state(task, network, optimizer), lambda: model.held_bytes(network, optimizer))

    for batch in run.steps():
        features, labels = load(batch)
        optimizer.zero_grad()
        with exchange():
            loss = cross_entropy(network(features), labels)
            accelerator.backward(loss)
        optimizer.step()
        schedule.step()
        run.observe(loss.detach(), rows=len(labels))
    run.finish()


if __name__ == "__main__":
    exit_with_one_line(main)
