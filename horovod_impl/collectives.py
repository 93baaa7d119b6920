"""Horovod's collectives, alone: one process per rank, over Gloo or over MPI, whichever the launcher started.

Every function below prepares one collective; what is timed is the one call that a program would make. A call hands its
tensor, by a name, to a thread of Horovod's. Once in every cycle, which takes 1 ms, these threads tell one another which
names are ready, and carry out what is ready everywhere. So in each call is the rest of a cycle, whatever it sends; and
since the barrier before it ends with a cycle, that is nearly a whole one. Compare pytorch_impl/collectives.py, whose
Gloo is the same library without the names.

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
from common.declarations.arguments import check_world_size
from common.declarations.sweep import Sweep, parse_command_line
from common.measurement import machine
from common.measurement.collectives import Operation, measure
from common.measurement.world import World
from horovod_impl import torch_mlp
from horovod_impl.libraries import OVER_GLOO, OVER_MPI
from horovod_impl.strategies import HorovodOptions


@dataclass(frozen=True)
class Ranks:
    """All ranks, of which this process is one."""

    size: int
    data_type: torch.dtype

    def tensor(self, elements: int) -> torch.Tensor:
        """Room for so many, (elements,), in the host's memory."""
        return torch.zeros(elements, dtype=self.data_type)


def main() -> None:
    """Join the world that horovodrun or mpirun started and measure the collectives in it, as the command line says."""
    sweep = parse_command_line(__doc__)
    if sweep.device == "gpu":
        raise UserError("--device gpu: Horovod over Gloo and over MPI is measured between CPUs; leave it out.")
    world.prepare(sweep, HorovodOptions())
    with world.one_line_when_nobody_answers():
        hvd.init()
    library = OVER_MPI if world.controller_of(hvd) == "mpi" else OVER_GLOO
    world.settle(library.options, hvd)
    workers = _workers(dataclasses.replace(sweep, device="cpu"))
    ranks = Ranks(workers.size, getattr(torch, sweep.data_type))
    with world.one_line_when_it_breaks(HorovodInternalError):
        measure(
            library,
            sweep,
            workers,
            prepare=lambda collective, elements: OPERATIONS[collective](ranks, elements),
            barrier=hvd.barrier,
            facts={"HOROVOD_CYCLE_TIME": os.environ.get("HOROVOD_CYCLE_TIME", "not set, which means 1 ms")},
        )
    hvd.shutdown()


def _workers(sweep: Sweep) -> World:
    check_world_size(sweep, hvd.size(), "the launcher")
    placement = machine.pin(sweep, hvd.local_rank(), hvd.local_size())
    device = torch_mlp.choose_device(sweep, hvd.local_rank(), hvd.local_size())
    return World(
        placement=placement,
        rank=hvd.rank(),
        size=hvd.size(),
        backend=world.carrier_of(hvd, device.type),
        # Horovod would name the collective after the value's type, and wait for ever where ranks' types differ.
        all_gather=partial(hvd.allgather_object, name="run"),
    )


def broadcast(ranks: Ranks, elements: int) -> Operation:
    """The first rank's elements to every rank, in place of what they had there."""
    own = ranks.tensor(elements)
    return _operation(own, lambda: hvd.broadcast_(own, root_rank=0, name="broadcast"))


def all_gather(ranks: Ranks, elements: int) -> Operation:
    """Every rank gets the elements of all, in a tensor that is made in each call: ranks may bring different numbers."""
    own = ranks.tensor(elements)
    return _operation(own, lambda: hvd.allgather(own, name="all_gather"))


def reduce_scatter(ranks: Ranks, elements: int) -> Operation:
    """Of the sums over all ranks each rank gets an N-th, in a tensor that is made in each call."""
    own = ranks.tensor(elements)
    return _operation(own, lambda: hvd.reducescatter(own, op=hvd.Sum, name="reduce_scatter"))


def all_reduce(ranks: Ranks, elements: int) -> Operation:
    """Every rank gets the sums over all ranks, in place of its own elements; unless told otherwise, the means.

    So each call needs its elements anew: they are loaded before it, outside the clock. Where calls come one right after
    the other they add up sums. These soon reach infinity, whose addition takes no longer.
    """
    own = ranks.tensor(elements)
    return _operation(own, lambda: hvd.allreduce_(own, op=hvd.Sum, name="all_reduce"))


def all_to_all(ranks: Ranks, elements: int) -> Operation:
    """Of every rank's elements each rank gets its N-th, in a tensor that is made in each call."""
    own = ranks.tensor(elements)
    return _operation(own, lambda: hvd.alltoall(own, name="all_to_all"))


def barrier(ranks: Ranks, elements: int) -> Operation:
    """No rank goes on before all have come."""
    own = ranks.tensor(elements)

    def call() -> torch.Tensor:
        hvd.barrier()
        return own

    return _operation(own, call)


OPERATIONS: dict[Collective, Callable[[Ranks, int], Operation]] = {
    Collective.BROADCAST: broadcast,
    Collective.ALL_GATHER: all_gather,
    Collective.REDUCE_SCATTER: reduce_scatter,
    Collective.ALL_REDUCE: all_reduce,
    Collective.ALL_TO_ALL: all_to_all,
    Collective.BARRIER: barrier,
}


def _operation(own: torch.Tensor, call: Callable[[], torch.Tensor]) -> Operation:
    result: torch.Tensor | None = None

    def run() -> None:
        nonlocal result
        result = call()

    return Operation(
        load=lambda parts: own.copy_(torch.from_numpy(parts[0])), run=run, results=lambda: [result.numpy()]
    )


if __name__ == "__main__":
    exit_with_one_line(main)
