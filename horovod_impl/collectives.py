"""Horovod's collectives, alone: one process per rank, over Gloo or over MPI, whichever the launcher started.

Every function below prepares one collective; the clock times the one call that a program would make. A call hands its
tensor, by a name, to a thread of Horovod's. Once in every cycle of 1 ms these threads negotiate which names are ready,
and execute the collectives that are ready on all ranks. So each call waits for the rest of a cycle, whatever it sends.
The barrier before a call ends with a cycle, so the wait is nearly a whole cycle. Compare pytorch_impl/collectives.py:
the same Gloo without the negotiation.

To start it: `horovodrun -np 2 python horovod_impl/collectives.py --collectives all_reduce -b 8 -e 4M`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import UserError, exit_with_one_line
from horovod_impl import world

if __name__ == "__main__":
    world.require_horovod("torch")

import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import horovod.torch as hvd
import torch
from horovod.common.exceptions import HorovodInternalError

from common.contract.collectives import Collective
from common.declarations.arguments import check_world_size, parse
from common.declarations.sweep import Sweep
from common.measurement import machine
from common.measurement.collectives import Operation, measure
from common.measurement.world import World
from horovod_impl import torch_mlp
from horovod_impl.libraries import OVER_GLOO, OVER_MPI
from horovod_impl.strategies import HorovodOptions


@dataclass(frozen=True)
class Ranks:
    """The number of ranks, and how a rank makes tensors."""

    size: int
    data_type: torch.dtype

    def tensor(self, elements: int) -> torch.Tensor:
        """A tensor of zeros, (elements,), in the host's memory."""
        return torch.zeros(elements, dtype=self.data_type)


def main() -> None:
    """Join the world that horovodrun or mpirun started and measure the collectives in it, as the command line says."""
    sweep = parse(Sweep, __doc__)
    if sweep.device == "gpu":
        raise UserError("--device gpu: Horovod over Gloo and over MPI is measured between CPUs; leave it out.")
    world.prepare(sweep, HorovodOptions())
    with world.one_line_when_nobody_answers():
        hvd.init()
    library = OVER_MPI if world.controller_of(hvd) == "mpi" else OVER_GLOO
    world.settle(library.options, hvd)
    horovod_world = _join(dataclasses.replace(sweep, device="cpu"))
    ranks = Ranks(horovod_world.size, getattr(torch, sweep.data_type))
    with world.one_line_when_it_breaks(HorovodInternalError):
        measure(
            library,
            sweep,
            horovod_world,
            prepare=lambda collective, elements: OPERATIONS[collective](ranks, elements),
            barrier=hvd.barrier,
            facts={"HOROVOD_CYCLE_TIME": os.environ.get("HOROVOD_CYCLE_TIME", "not set, which means 1 ms")},
        )
    hvd.shutdown()


def _join(sweep: Sweep) -> World:
    check_world_size(sweep, hvd.size(), "the launcher")
    placement = machine.pin(sweep, hvd.local_rank(), hvd.local_size())
    device = torch_mlp.choose_device(sweep, hvd.local_rank(), hvd.local_size())
    return World(
        placement=placement,
        rank=hvd.rank(),
        size=hvd.size(),
        backend=world.carrier_of(hvd, device.type),
        # Without a name Horovod uses the value's type, and hangs where the ranks' types differ.
        all_gather=partial(hvd.allgather_object, name="run"),
    )


def broadcast(ranks: Ranks, elements: int) -> Operation:
    """Copy the first rank's elements to every rank, in place."""
    buffer = ranks.tensor(elements)
    return _operation(buffer, lambda: hvd.broadcast_(buffer, root_rank=0, name="broadcast"))


def all_gather(ranks: Ranks, elements: int) -> Operation:
    """Collect the elements of all ranks on every rank, in a new tensor: their numbers may differ by rank."""
    send_buffer = ranks.tensor(elements)
    return _operation(send_buffer, lambda: hvd.allgather(send_buffer, name="all_gather"))


def reduce_scatter(ranks: Ranks, elements: int) -> Operation:
    """Give each rank an N-th of the sums over all ranks, in a new tensor."""
    send_buffer = ranks.tensor(elements)
    return _operation(send_buffer, lambda: hvd.reducescatter(send_buffer, op=hvd.Sum, name="reduce_scatter"))


def all_reduce(ranks: Ranks, elements: int) -> Operation:
    """Sum the elements of all ranks on every rank, in place. Horovod's default operation is the mean.

    So each call needs its elements anew: `load` writes them before the call, outside the clock. Calls right after one
    another add up sums. These soon reach infinity, whose addition takes no longer.
    """
    buffer = ranks.tensor(elements)
    return _operation(buffer, lambda: hvd.allreduce_(buffer, op=hvd.Sum, name="all_reduce"))


def all_to_all(ranks: Ranks, elements: int) -> Operation:
    """Give each rank its N-th of every rank's elements, in a new tensor."""
    send_buffer = ranks.tensor(elements)
    return _operation(send_buffer, lambda: hvd.alltoall(send_buffer, name="all_to_all"))


def barrier(ranks: Ranks, elements: int) -> Operation:
    """Hold every rank until all ranks have come."""
    buffer = ranks.tensor(elements)

    def call() -> torch.Tensor:
        hvd.barrier()
        return buffer

    return _operation(buffer, call)


OPERATIONS: dict[Collective, Callable[[Ranks, int], Operation]] = {
    Collective.BROADCAST: broadcast,
    Collective.ALL_GATHER: all_gather,
    Collective.REDUCE_SCATTER: reduce_scatter,
    Collective.ALL_REDUCE: all_reduce,
    Collective.ALL_TO_ALL: all_to_all,
    Collective.BARRIER: barrier,
}


def _operation(send_buffer: torch.Tensor, call: Callable[[], torch.Tensor]) -> Operation:
    result: torch.Tensor | None = None

    def run() -> None:
        nonlocal result
        result = call()

    return Operation(
        load=lambda parts: send_buffer.copy_(torch.from_numpy(parts[0])), run=run, results=lambda: [result.numpy()]
    )


if __name__ == "__main__":
    exit_with_one_line(main)
