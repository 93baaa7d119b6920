"""Horovod for torch: one process per worker; the optimizer averages every gradient over all workers before it steps.

To start it: `horovodrun -np 4 python horovod_impl/train.py --preset digits`.
"""

import dataclasses
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
from horovod.common.elastic import ObjectState
from horovod.common.exceptions import HorovodInternalError
from torch.nn.functional import cross_entropy

from common.declarations.arguments import parse_command_line
from common.measurement.run import Run
from horovod_impl.strategies import TORCH
from pytorch_impl import inputs, model


def main() -> None:
    """Join the world that horovodrun or mpirun started and train the model in it, as the command line says."""
    task, options = parse_command_line(TORCH, __doc__)
    world.prepare(task, options)
    # 1. Initialise Horovod: from here on every process knows its rank and its peers.
    with world.one_line_when_nobody_answers():
        hvd.init()
    # 2. Pin one GPU per process by local rank, where there are GPUs.
    device = model.choose_device(task, hvd.local_rank(), hvd.local_size())
    synchronize = partial(model.synchronize, device)
    options, horovod_world = world.join(hvd, task, options, model.device_name(device), synchronize)

    def train(committed: ObjectState) -> None:
        # Elastic workers may have another rank by now, and be fewer or more.
        joined = dataclasses.replace(horovod_world, rank=hvd.rank(), size=hvd.size())
        _train(Run(TORCH, task, options, joined, committed.checkpoint), device, committed)

    # The line that makes it elastic: when a worker was lost or has come, training begins again, from what is committed.
    begin = hvd.elastic.run(train) if options.commit_steps else train
    with world.one_line_when_it_breaks(HorovodInternalError):
        begin(world.committed(hvd))
    hvd.shutdown()


def _train(run: Run, device: torch.device, committed: ObjectState) -> None:
    task, options = run.task, run.options
    network = model.build_model(task, options.precision).to(device)
    optimizer = model.build_optimizer(task, network)
    if options.exchange:
        # 3. Wrap the optimizer. The line that makes it distributed: hooks on every parameter start the averaging of its
        # gradient during backward, and step() waits for all of them. The bare one steps by this worker's own.
        optimizer = hvd.DistributedOptimizer(
            optimizer,
            named_parameters=network.named_parameters(),
            compression=hvd.Compression.fp16 if options.compression == "fp16" else hvd.Compression.none,
            op=hvd.Adasum if options.adasum else hvd.Average,
        )
    schedule = model.build_schedule(task, optimizer, run.first_step)
    model.load_state(task, network, optimizer, run.initial_state)
    # 4. Broadcast parameters and optimizer state from rank 0.
    hvd.broadcast_parameters(network.state_dict(), root_rank=0)
    if optimizer.state:
        # Without state Horovod would step with zero gradients to make some, and weight decay would move the weights.
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    load = inputs.loader(run, device)

    # 5. Checkpoint on rank 0 alone, which the run does.
    run.export_with(partial(model.export_state, task, network, optimizer), lambda: model.held_bytes(network, optimizer))

    with world.traced(run, hvd) as phases:
        for batch in run.steps():
            features, labels = load(batch)
            optimizer.zero_grad()
            loss = cross_entropy(network(features), labels)
            loss.backward()
            optimizer.step()
            schedule.step()
            run.observe(loss.detach(), rows=len(labels))
            world.commit(committed, run, batch.step + 1)
    run.finish(phases=phases)


if __name__ == "__main__":
    exit_with_one_line(main)
