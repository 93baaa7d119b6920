"""MPI's collectives, alone: one process per rank, through mpi4py on NumPy's arrays, as Open MPI carries them out.

Every function below prepares one collective: its arrays are made once, and what is timed is the one call that a program
would make. A name with a capital, such as Allreduce, hands MPI an array's memory; allreduce would pickle any object.
Ranks of a host reach one another's memory, and wait by looking again and again. There Open MPI's component `tuned`
chooses the algorithm, by size and number of ranks, unless it's told: `OMPI_MCA_coll_tuned_use_dynamic_rules=1
OMPI_MCA_coll_tuned_allreduce_algorithm=ring mpirun ...`. The record's facts have the variables that are set.

To start it: `mpirun -np 2 python pytorch_impl/collectives_mpi.py --collectives all_reduce -b 8 -e 4M`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import UserError, exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("torch")

import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from common.contract.collectives import Collective
from common.declarations.sweep import parse_command_line
from common.measurement.collectives import Operation, measure
from pytorch_impl import mpi
from pytorch_impl.libraries import OPEN_MPI

if TYPE_CHECKING:
    from mpi4py import MPI


@dataclass(frozen=True)
class Ranks:
    """All ranks, and which of them this process is."""

    world: "MPI.Comm"
    data_type: str
    sender: int = 0
    """Who sends in send_receive: the first one, or the last."""

    @property
    def is_root(self) -> bool:
        """Whether this is the first rank."""
        return self.world.rank == 0

    def array(self, elements: int) -> np.ndarray:
        """Room for so many, (elements,), in the host's memory."""
        return np.zeros(elements, self.data_type)

    def message(self, array: np.ndarray) -> tuple["MPI.buffer", "MPI.Datatype"]:
        """The array's memory with MPI's name of its type, which mpi4py would else find out in each call."""
        from mpi4py import MPI

        return MPI.buffer.frombuffer(array), MPI.Datatype.fromcode(array.dtype.char)


def main() -> None:
    """Join the world that mpirun started and measure the collectives in it, as the command line says."""
    sweep = parse_command_line(__doc__)
    if not mpi.is_launched():
        raise UserError(f"{OPEN_MPI.name} is started by mpirun: mpirun -np N python {OPEN_MPI.script}")
    mpi.require_mpi4py()
    if sweep.device == "gpu":
        raise UserError(f"--device gpu: {OPEN_MPI.title} is measured between CPUs; leave it out.")
    workers, _, everyone = mpi.join(dataclasses.replace(sweep, device="cpu"))
    ranks = Ranks(everyone, sweep.data_type)
    turned = dataclasses.replace(ranks, sender=workers.size - 1)
    measure(
        OPEN_MPI,
        sweep,
        workers,
        prepare=lambda collective, elements, backwards=False: OPERATIONS[collective](
            turned if backwards else ranks, elements
        ),
        barrier=everyone.Barrier,
        facts=_facts(),
    )


def send_receive(ranks: Ranks, elements: int) -> Operation:
    """The sender's elements to the rank at the other end. The others, if any, have nothing to do."""
    own, received = ranks.array(elements), ranks.array(elements)
    sent, room = ranks.message(own), ranks.message(received)
    receiver = ranks.world.size - 1 - ranks.sender
    calls = {
        ranks.sender: partial(ranks.world.Send, sent, receiver),
        receiver: partial(ranks.world.Recv, room, ranks.sender),
    }
    return _operation(own, calls.get(ranks.world.rank, lambda: None), received)


def broadcast(ranks: Ranks, elements: int) -> Operation:
    """The first rank's elements to every rank, in place of what they had there."""
    own = ranks.array(elements)
    message = ranks.message(own)
    return _operation(own, partial(ranks.world.Bcast, message, 0), own)


def scatter(ranks: Ranks, elements: int) -> Operation:
    """Of the first rank's elements each rank gets an N-th."""
    own, part = ranks.array(elements), ranks.array(elements // ranks.world.size)
    whole, room = ranks.message(own) if ranks.is_root else None, ranks.message(part)
    return _operation(own, partial(ranks.world.Scatter, whole, room, 0), part)


def gather(ranks: Ranks, elements: int) -> Operation:
    """The first rank gets the elements of all."""
    own, everyones = ranks.array(elements), ranks.array(ranks.world.size * elements)
    sent, whole = ranks.message(own), ranks.message(everyones) if ranks.is_root else None
    return _operation(own, partial(ranks.world.Gather, sent, whole, 0), everyones)


def all_gather(ranks: Ranks, elements: int) -> Operation:
    """Every rank gets the elements of all; its own are in their place before."""
    from mpi4py import MPI

    everyones = ranks.array(ranks.world.size * elements)
    own = everyones[ranks.world.rank * elements :][:elements]
    return _operation(own, partial(ranks.world.Allgather, MPI.IN_PLACE, ranks.message(everyones)), everyones)


def reduce(ranks: Ranks, elements: int) -> Operation:
    """The first rank gets the sums over all ranks: MPI's choice where it's told neither the operation nor the root."""
    own, total = ranks.array(elements), ranks.array(elements)
    sent, there = ranks.message(own), ranks.message(total) if ranks.is_root else None
    return _operation(own, partial(ranks.world.Reduce, sent, there), total)


def reduce_scatter(ranks: Ranks, elements: int) -> Operation:
    """Of the sums over all ranks each rank gets an N-th: a block, as MPI calls parts that are all alike."""
    own, part = ranks.array(elements), ranks.array(elements // ranks.world.size)
    sent, room = ranks.message(own), ranks.message(part)
    return _operation(own, partial(ranks.world.Reduce_scatter_block, sent, room), part)


def all_reduce(ranks: Ranks, elements: int) -> Operation:
    """Every rank gets the sums over all ranks. With MPI.IN_PLACE they would take the place of its own elements."""
    own, total = ranks.array(elements), ranks.array(elements)
    sent, room = ranks.message(own), ranks.message(total)
    return _operation(own, partial(ranks.world.Allreduce, sent, room), total)


def all_to_all(ranks: Ranks, elements: int) -> Operation:
    """Of every rank's elements each rank gets its N-th."""
    own, exchanged = ranks.array(elements), ranks.array(elements)
    sent, room = ranks.message(own), ranks.message(exchanged)
    return _operation(own, partial(ranks.world.Alltoall, sent, room), exchanged)


def barrier(ranks: Ranks, elements: int) -> Operation:
    """No rank goes on before all have come."""
    own = ranks.array(elements)
    return _operation(own, ranks.world.Barrier, own)


OPERATIONS: dict[Collective, Callable[[Ranks, int], Operation]] = {
    Collective.SEND_RECEIVE: send_receive,
    Collective.BROADCAST: broadcast,
    Collective.SCATTER: scatter,
    Collective.GATHER: gather,
    Collective.ALL_GATHER: all_gather,
    Collective.REDUCE: reduce,
    Collective.REDUCE_SCATTER: reduce_scatter,
    Collective.ALL_REDUCE: all_reduce,
    Collective.ALL_TO_ALL: all_to_all,
    Collective.BARRIER: barrier,
}


def _operation(own: np.ndarray, call: Callable[[], object], result: np.ndarray) -> Operation:
    """`call` has its arguments by place: one by name would take functools.partial 0.1 us of each call."""
    return Operation(load=lambda parts: np.copyto(own, parts[0]), run=call, results=lambda: [result])


def _facts() -> dict[str, str]:
    """Which MPI this is, and what the environment tells it of algorithms, of networks, and of how to wait."""
    from mpi4py import MPI

    told = ("OMPI_MCA_coll", "OMPI_MCA_btl", "OMPI_MCA_pml", "OMPI_MCA_smsc", "OMPI_MCA_mpi_yield")
    library = MPI.Get_library_version().partition(",")[0].strip("\0\n ")
    return {"library": library} | {name: value for name, value in os.environ.items() if name.startswith(told)}


if __name__ == "__main__":
    exit_with_one_line(main)
