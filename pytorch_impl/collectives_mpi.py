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

from common.declarations.arguments import parse
from common.declarations.sweep import Sweep
from common.measurement.collective_calls import Operation, measure
from pytorch_impl import mpi
from pytorch_impl.libraries import OPEN_MPI

if TYPE_CHECKING:
    from mpi4py import MPI


def main() -> None:
    """Join the world that mpirun started and measure the collectives in it, as the command line says."""
    sweep = parse(Sweep, __doc__)
    if not mpi.is_launched():
        raise UserError(f"{OPEN_MPI.name} is started by mpirun: mpirun -np N python {OPEN_MPI.script}")
    if sweep.device == "gpu":
        raise UserError(f"--device gpu: {OPEN_MPI.title} is measured between CPUs; leave it out.")
    world, _, communicator = mpi.join(dataclasses.replace(sweep, device="cpu"))
    forwards = Collectives(communicator, sweep.data_type)
    backwards = dataclasses.replace(forwards, sender=world.size - 1)
    measure(
        OPEN_MPI,
        sweep,
        world,
        # The methods have the collectives' names.
        prepare=lambda name, elements, turned=False: getattr(backwards if turned else forwards, name)(elements),
        barrier=communicator.Barrier,
        facts=_facts(),
    )


@dataclass(frozen=True)
class Collectives:
    """Each method prepares the collective of its name, with `elements` elements in this rank's input."""

    communicator: "MPI.Comm"
    data_type: str
    sender: int = 0
    """The rank that sends in send_receive: the first one or the last."""

    def array(self, elements: int) -> np.ndarray:
        """An array of zeros, (elements,), in the host's memory."""
        return np.zeros(elements, self.data_type)

    def message(self, array: np.ndarray) -> tuple["MPI.buffer", "MPI.Datatype"]:
        """The array's memory and MPI's name of its type, which mpi4py would otherwise look up in each call."""
        from mpi4py import MPI

        return MPI.buffer.frombuffer(array), MPI.Datatype.fromcode(array.dtype.char)

    def send_receive(self, elements: int) -> Operation:
        """Send the elements of the sender to the rank at the other end. Other ranks do nothing."""
        send_buffer, receive_buffer = self.array(elements), self.array(elements)
        send_message, receive_message = self.message(send_buffer), self.message(receive_buffer)
        receiver = self.communicator.size - 1 - self.sender
        calls = {
            self.sender: partial(self.communicator.Send, send_message, receiver),
            receiver: partial(self.communicator.Recv, receive_message, self.sender),
        }
        return self._operation(send_buffer, calls.get(self.communicator.rank, lambda: None), receive_buffer)

    def broadcast(self, elements: int) -> Operation:
        """Copy the first rank's elements to every rank, in place."""
        buffer = self.array(elements)
        return self._operation(buffer, partial(self.communicator.Bcast, self.message(buffer), 0), buffer)

    def scatter(self, elements: int) -> Operation:
        """Give each rank an N-th of the first rank's elements. MPI ignores the other ranks' elements."""
        part = elements // self.communicator.size
        return self._of_two_buffers(self.array(elements), self.array(part), self.communicator.Scatter)

    def gather(self, elements: int) -> Operation:
        """Collect the elements of all ranks on the first rank. MPI leaves the other ranks' receive buffers alone."""
        whole = self.communicator.size * elements
        return self._of_two_buffers(self.array(elements), self.array(whole), self.communicator.Gather)

    def all_gather(self, elements: int) -> Operation:
        """Collect the elements of all ranks on every rank. A rank's own part is in its place before the call."""
        from mpi4py import MPI

        receive_buffer = self.array(self.communicator.size * elements)
        send_buffer = receive_buffer[self.communicator.rank * elements :][:elements]
        call = partial(self.communicator.Allgather, MPI.IN_PLACE, self.message(receive_buffer))
        return self._operation(send_buffer, call, receive_buffer)

    def reduce(self, elements: int) -> Operation:
        """Sum the elements of all ranks on the first rank: mpi4py's defaults for the operation and the root."""
        return self._of_two_buffers(self.array(elements), self.array(elements), self.communicator.Reduce)

    def reduce_scatter(self, elements: int) -> Operation:
        """Give each rank an N-th of the sums over all ranks. MPI calls equal parts blocks."""
        part = elements // self.communicator.size
        return self._of_two_buffers(self.array(elements), self.array(part), self.communicator.Reduce_scatter_block)

    def all_reduce(self, elements: int) -> Operation:
        """Sum the elements of all ranks on every rank. With MPI.IN_PLACE the sums would replace the rank's elements."""
        return self._of_two_buffers(self.array(elements), self.array(elements), self.communicator.Allreduce)

    def all_to_all(self, elements: int) -> Operation:
        """Give each rank its N-th of every rank's elements."""
        return self._of_two_buffers(self.array(elements), self.array(elements), self.communicator.Alltoall)

    def barrier(self, elements: int) -> Operation:
        """Hold every rank until all ranks have come."""
        buffer = self.array(elements)
        return self._operation(buffer, self.communicator.Barrier, buffer)

    def _of_two_buffers(
        self, send_buffer: np.ndarray, receive_buffer: np.ndarray, call: Callable[..., object]
    ) -> Operation:
        run = partial(call, self.message(send_buffer), self.message(receive_buffer))
        return self._operation(send_buffer, run, receive_buffer)

    def _operation(self, send_buffer: np.ndarray, call: Callable[[], object], receive_buffer: np.ndarray) -> Operation:
        """The operation that `call` runs.

        `call` has positional arguments only: an argument by name would cost functools.partial 0.1 us in each call.
        """
        return Operation(lambda parts: np.copyto(send_buffer, parts[0]), call, lambda: [receive_buffer])


def _facts() -> dict[str, str]:
    """The MPI library, and the environment's settings of algorithms, networks and waiting."""
    from mpi4py import MPI

    prefixes = ("OMPI_MCA_coll", "OMPI_MCA_btl", "OMPI_MCA_pml", "OMPI_MCA_smsc", "OMPI_MCA_mpi_yield")
    library = MPI.Get_library_version().partition(",")[0].strip("\0\n ")
    return {"library": library} | {name: value for name, value in os.environ.items() if name.startswith(prefixes)}


if __name__ == "__main__":
    exit_with_one_line(main)
