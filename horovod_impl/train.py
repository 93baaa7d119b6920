"""Horovod for torch: one process per worker; the optimizer averages every gradient over all workers before it steps.

To start it: `horovodrun -np 4 python horovod_impl/train.py --preset digits`.
"""

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line
from horovod_impl import world

if __name__ == "__main__":
    world.require_horovod("torch")

import horovod.torch as hvd
import torch
from horovod.common.exceptions import HorovodInternalError
from torch.nn.functional import cross_entropy

from common import machine
from common.config import Config, check_world_size, parse_command_line
from common.run import Run
from horovod_impl import torch_inputs as inputs
from horovod_impl import torch_model as contract


def main() -> None:
    """Join the world that horovodrun or mpirun started and train the MLP in it, as the command line says."""
    config = parse_command_line(__doc__)
    world.prepare(config)
    # 1. Initialise Horovod: from here on every process knows its rank and its peers.
    hvd.init()
    config = world.settle(config, hvd)
    check_world_size(config, hvd.size(), "horovodrun")
    placement = machine.pin(config, hvd.local_rank(), hvd.local_size())
    # 2. Pin one GPU per process by local rank, where there are GPUs.
    device = contract.choose_device(config, hvd.local_rank(), hvd.local_size())

    run = Run(
        config,
        strategy="horovod_torch",
        framework="torch",
        placement=placement,
        rank=hvd.rank(),
        world_size=hvd.size(),
        backend=world.carrier_of(hvd, device.type),
        device=contract.device_name(device),
        # Horovod would name the collective after the value's type, and wait for ever where ranks' types differ.
        all_gather=partial(hvd.allgather_object, name="run"),
        synchronize=partial(contract.synchronize, device),
    )
    with world.one_line_when_it_breaks(HorovodInternalError):
        _train(config, run, device)
    hvd.shutdown()


def _train(config: Config, run: Run, device: torch.device) -> None:
    model = contract.build_model(config).to(device)
    optimizer = contract.build_optimizer(config, model)
    if config.exchange:
        # 3. Wrap the optimizer. The line that makes it distributed: hooks on every parameter start the averaging of its
        # gradient during backward, and step() waits for all of them.
        optimizer = hvd.DistributedOptimizer(
            optimizer,
            named_parameters=model.named_parameters(),
            compression=hvd.Compression.fp16 if config.compression == "fp16" else hvd.Compression.none,
            op=hvd.Adasum if config.adasum else hvd.Average,
        )
    schedule = contract.build_schedule(config, optimizer, run.first_step)
    contract.load_state(config, model, optimizer, run.initial_state)
    # 4. Broadcast parameters and optimizer state from rank 0.
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    if optimizer.state:
        # Without state Horovod would make some by a step with zero gradients, which moves the weights by weight decay.
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    take = inputs.prepare(run, device)

    with world.traced(run, hvd) as facts:
        for batch in run.steps():
            features, labels = take(batch)
            optimizer.zero_grad()
            loss = cross_entropy(model(features), labels)
            loss.backward()
            optimizer.step()
            schedule.step()
            if config.check_replicas:
                run.check_replicas(contract.export_state(config, model, optimizer))
            run.observe(loss.detach())
            # 5. Checkpoint on rank 0 alone: the others pass through.
            if run.checkpoint_due:
                run.checkpoint(contract.export_state(config, model, optimizer))
    run.finish(contract.export_state(config, model, optimizer), contract.held_bytes(model, optimizer), **facts)


if __name__ == "__main__":
    exit_with_one_line(main)
