"""Horovod's collectives, alone: one process per rank, over Gloo or over MPI, whichever the launcher started.

Every function below is one collective: the one call that a program would make, which the clock times. A call hands its
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
from functools import partial

import horovod.torch as hvd
import torch
from horovod.common.exceptions import HorovodInternalError

from common.contract.collective_meanings import Collective
from common.declarations.arguments import parse
from common.declarations.sweep import Sweep
from common.measurement.collective_calls import Operation, measure
from horovod_impl.libraries import OVER_GLOO, OVER_MPI
from horovod_impl.strategies import HorovodOptions
from pytorch_impl import model


def main() -> None:
    """Join the world that horovodrun or mpirun started and measure the collectives in it, as the command line says."""
    sweep = parse(Sweep, __doc__)
    if sweep.device == "gpu":
        raise UserError("--device gpu: Horovod over Gloo and over MPI is measured between CPUs; leave it out.")
    sweep = dataclasses.replace(sweep, device="cpu")
    world.prepare(sweep, HorovodOptions())
    with world.one_line_when_nobody_answers():
        hvd.init()
    model.choose_device(sweep, hvd.local_rank(), hvd.local_size())
    library = OVER_MPI if world.controller_of(hvd) == "mpi" else OVER_GLOO
    _, horovod_world = world.join(hvd, sweep, library.options)
    with world.one_line_when_it_breaks(HorovodInternalError):
        measure(
            library,
            sweep,
            horovod_world,
            prepare=partial(prepare, data_type=getattr(torch, sweep.data_type)),
            barrier=hvd.barrier,
            facts={"HOROVOD_CYCLE_TIME": os.environ.get("HOROVOD_CYCLE_TIME", "not set, which means 1 ms")},
        )
    hvd.shutdown()


def prepare(collective: Collective, elements: int, data_type: torch.dtype) -> Operation:
    """The operation of a collective, to which each rank gives so many elements in the host's memory."""
    buffer, result = torch.zeros(elements, dtype=data_type), None

    def run() -> None:
        nonlocal result
        result = COLLECTIVES[collective](buffer)

    return Operation(
        load=lambda parts: buffer.copy_(torch.from_numpy(parts[0])), run=run, results=lambda: [result.numpy()]
    )


def broadcast(buffer: torch.Tensor) -> torch.Tensor:
    """Copy the first rank's elements to every rank, in place."""
    return hvd.broadcast_(buffer, root_rank=0, name="broadcast")


def all_gather(buffer: torch.Tensor) -> torch.Tensor:
    """Collect the elements of all ranks on every rank, in a new tensor: their numbers may differ by rank."""
    return hvd.allgather(buffer, name="all_gather")


def reduce_scatter(buffer: torch.Tensor) -> torch.Tensor:
    """Give each rank an N-th of the sums over all ranks, in a new tensor."""
    return hvd.reducescatter(buffer, op=hvd.Sum, name="reduce_scatter")


def all_reduce(buffer: torch.Tensor) -> torch.Tensor:
    """Sum the elements of all ranks on every rank, in place. Horovod's default operation is the mean.

    So each call needs its elements anew: `load` writes them before the call, outside the clock. Calls right after one
    another add up sums. These soon reach infinity, whose addition takes no longer.
    """
    return hvd.allreduce_(buffer, op=hvd.Sum, name="all_reduce")


def all_to_all(buffer: torch.Tensor) -> torch.Tensor:
    """Give each rank its N-th of every rank's elements, in a new tensor."""
    return hvd.alltoall(buffer, name="all_to_all")


def barrier(buffer: torch.Tensor) -> torch.Tensor:
    """Hold every rank until all ranks have come."""
    hvd.barrier()
    return buffer


COLLECTIVES: dict[Collective, Callable[[torch.Tensor], torch.Tensor]] = {
    Collective.BROADCAST: broadcast,
    Collective.ALL_GATHER: all_gather,
    Collective.REDUCE_SCATTER: reduce_scatter,
    Collective.ALL_REDUCE: all_reduce,
    Collective.ALL_TO_ALL: all_to_all,
    Collective.BARRIER: barrier,
}


if __name__ == "__main__":
    exit_with_one_line(main)
