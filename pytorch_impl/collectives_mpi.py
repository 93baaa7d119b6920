"""MPI's collectives, alone: one process per rank, through mpi4py on NumPy's arrays, as Open MPI carries them out.

Every function below prepares one collective. It makes the arrays once, and the clock times the one call that a program
would make. A name with a capital, such as Allreduce, hands MPI an array's memory; allreduce would pickle any object.
Ranks of a host reach one another's memory, and wait by polling it. There Open MPI's component `tuned` chooses the
algorithm by size and number of ranks, unless the user names one: `OMPI_MCA_coll_tuned_use_dynamic_rules=1
OMPI_MCA_coll_tuned_allreduce_algorithm=ring mpirun ...`. The record's facts hold the variables that are set.

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
    """The ranks, this process's own rank, and how it makes arrays."""

    communicator: "MPI.Comm"
    data_type: str
    sender: int = 0
    """The rank that sends in send_receive: the first one or the last."""

    @property
    def is_root(self) -> bool:
        """Whether this is the first rank."""
        return self.communicator.rank == 0

    def array(self, elements: int) -> np.ndarray:
        """An array of zeros, (elements,), in the host's memory."""
        return np.zeros(elements, self.data_type)

    def message(self, array: np.ndarray) -> tuple["MPI.buffer", "MPI.Datatype"]:
        """The array's memory and MPI's name of its type, which mpi4py would otherwise look up in each call."""
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
    world, _, communicator = mpi.join(dataclasses.replace(sweep, device="cpu"))
    ranks = Ranks(communicator, sweep.data_type)
    reversed_ranks = dataclasses.replace(ranks, sender=world.size - 1)
    measure(
        OPEN_MPI,
        sweep,
        world,
        prepare=lambda collective, elements, backwards=False: OPERATIONS[collective](
            reversed_ranks if backwards else ranks, elements
        ),
        barrier=communicator.Barrier,
        facts=_facts(),
    )


def send_receive(ranks: Ranks, elements: int) -> Operation:
    """Send the elements of the sender to the rank at the other end. Other ranks do nothing."""
    send_buffer, receive_buffer = ranks.array(elements), ranks.array(elements)
    send_message, receive_message = ranks.message(send_buffer), ranks.message(receive_buffer)
    receiver = ranks.communicator.size - 1 - ranks.sender
    calls = {
        ranks.sender: partial(ranks.communicator.Send, send_message, receiver),
        receiver: partial(ranks.communicator.Recv, receive_message, ranks.sender),
    }
    return _operation(send_buffer, calls.get(ranks.communicator.rank, lambda: None), receive_buffer)


def broadcast(ranks: Ranks, elements: int) -> Operation:
    """Copy the first rank's elements to every rank, in place."""
    buffer = ranks.array(elements)
    return _operation(buffer, partial(ranks.communicator.Bcast, ranks.message(buffer), 0), buffer)


def scatter(ranks: Ranks, elements: int) -> Operation:
    """Give each rank an N-th of the first rank's elements."""
    send_buffer, receive_buffer = ranks.array(elements), ranks.array(elements // ranks.communicator.size)
    send_message = ranks.message(send_buffer) if ranks.is_root else None
    call = partial(ranks.communicator.Scatter, send_message, ranks.message(receive_buffer), 0)
    return _operation(send_buffer, call, receive_buffer)


def gather(ranks: Ranks, elements: int) -> Operation:
    """Collect the elements of all ranks on the first rank."""
    send_buffer, receive_buffer = ranks.array(elements), ranks.array(ranks.communicator.size * elements)
    receive_message = ranks.message(receive_buffer) if ranks.is_root else None
    call = partial(ranks.communicator.Gather, ranks.message(send_buffer), receive_message, 0)
    return _operation(send_buffer, call, receive_buffer)


def all_gather(ranks: Ranks, elements: int) -> Operation:
    """Collect the elements of all ranks on every rank. A rank's own part is in its place before the call."""
    from mpi4py import MPI

    receive_buffer = ranks.array(ranks.communicator.size * elements)
    send_buffer = receive_buffer[ranks.communicator.rank * elements :][:elements]
    call = partial(ranks.communicator.Allgather, MPI.IN_PLACE, ranks.message(receive_buffer))
    return _operation(send_buffer, call, receive_buffer)


def reduce(ranks: Ranks, elements: int) -> Operation:
    """Sum the elements of all ranks on the first rank: mpi4py's defaults for the operation and the root."""
    send_buffer, receive_buffer = ranks.array(elements), ranks.array(elements)
    receive_message = ranks.message(receive_buffer) if ranks.is_root else None
    call = partial(ranks.communicator.Reduce, ranks.message(send_buffer), receive_message)
    return _operation(send_buffer, call, receive_buffer)


def reduce_scatter(ranks: Ranks, elements: int) -> Operation:
    """Give each rank an N-th of the sums over all ranks. MPI calls equal parts blocks."""
    send_buffer, receive_buffer = ranks.array(elements), ranks.array(elements // ranks.communicator.size)
    send_message, receive_message = ranks.message(send_buffer), ranks.message(receive_buffer)
    call = partial(ranks.communicator.Reduce_scatter_block, send_message, receive_message)
    return _operation(send_buffer, call, receive_buffer)


def all_reduce(ranks: Ranks, elements: int) -> Operation:
    """Sum the elements of all ranks on every rank. With MPI.IN_PLACE the sums would replace a rank's own elements."""
    send_buffer, receive_buffer = ranks.array(elements), ranks.array(elements)
    send_message, receive_message = ranks.message(send_buffer), ranks.message(receive_buffer)
    return _operation(send_buffer, partial(ranks.communicator.Allreduce, send_message, receive_message), receive_buffer)


def all_to_all(ranks: Ranks, elements: int) -> Operation:
    """Give each rank its N-th of every rank's elements."""
    send_buffer, receive_buffer = ranks.array(elements), ranks.array(elements)
    send_message, receive_message = ranks.message(send_buffer), ranks.message(receive_buffer)
    return _operation(send_buffer, partial(ranks.communicator.Alltoall, send_message, receive_message), receive_buffer)


def barrier(ranks: Ranks, elements: int) -> Operation:
    """Hold every rank until all ranks have come."""
    buffer = ranks.array(elements)
    return _operation(buffer, ranks.communicator.Barrier, buffer)


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


def _operation(send_buffer: np.ndarray, call: Callable[[], object], receive_buffer: np.ndarray) -> Operation:
    """The operation that `call` runs.

    `call` has positional arguments only: an argument by name would cost functools.partial 0.1 us in each call.
    """
    return Operation(load=lambda parts: np.copyto(send_buffer, parts[0]), run=call, results=lambda: [receive_buffer])


def _facts() -> dict[str, str]:
    """The MPI library, and the environment's settings of algorithms, networks and waiting."""
    from mpi4py import MPI

    prefixes = ("OMPI_MCA_coll", "OMPI_MCA_btl", "OMPI_MCA_pml", "OMPI_MCA_smsc", "OMPI_MCA_mpi_yield")
    library = MPI.Get_library_version().partition(",")[0].strip("\0\n ")
    return {"library": library} | {name: value for name, value in os.environ.items() if name.startswith(prefixes)}


if __name__ == "__main__":
    exit_with_one_line(main)
