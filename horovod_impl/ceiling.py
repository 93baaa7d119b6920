"""The ceiling of Horovod's exchange: an all-reduce of one tensor as large as all gradients, with nothing beside it.

torch and TensorFlow compute the products, which their own probes clock.

To start it: `horovodrun -np 2 python horovod_impl/ceiling.py --preset pathway`.
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

from common.contract.model import parameter_bytes
from common.declarations.arguments import parse_command_line
from common.measurement import probing
from horovod_impl.strategies import TORCH
from pytorch_impl import model


def main() -> None:
    """Join the world that horovodrun started and clock an exchange among all workers."""
    task, options = parse_command_line(TORCH, __doc__)
    world.prepare(task, options)
    with world.one_line_when_nobody_answers():
        hvd.init()
    device = model.choose_device(task, hvd.local_rank(), hvd.local_size())
    synchronize = partial(model.synchronize, device)
    _, horovod_world = world.join(hvd, task, options, model.device_name(device), synchronize)
    gradients = torch.zeros(parameter_bytes(task) // 4, device=device)
    all_reduce = partial(hvd.allreduce_, gradients, name="gradients")
    exchange = probing.clock(all_reduce, horovod_world) if hvd.size() > 1 else []
    if hvd.rank() == 0:
        # The libraries by which this build of Horovod can exchange.
        built = {"Gloo": hvd.gloo_built(), "MPI": hvd.mpi_built(), "NCCL": hvd.nccl_built()}
        facts = {"built with": ", ".join(name for name, is_built in built.items() if is_built)}
        probing.finish(TORCH, task, horovod_world, [], exchange, facts)
    hvd.shutdown()


if __name__ == "__main__":
    exit_with_one_line(main)
