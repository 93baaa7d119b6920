"""torch.distributed's collectives, alone: one process per rank, over Gloo between CPUs or over NCCL between GPUs.

Every function below prepares one collective. It makes the tensors once, and the clock times the one call that a program
would make. Compare pytorch_impl/collectives_mpi.py: MPI's own calls, whose names torch took over.
The environment variable LOCKSTEP_TORCH_LIBRARY chooses the library: gloo (the default), nccl, or an all-reduce by hand.

To start it: `torchrun --nproc-per-node 2 pytorch_impl/collectives.py --collectives all_reduce -b 8 -e 4M`.
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

import numpy as np
import torch
import torch.distributed as dist

from common.contract.algorithms.all_reduce import ALGORITHMS
from common.contract.algorithms.exchange import AllReduce
from common.declarations.arguments import parse
from common.declarations.library import Library
from common.declarations.sweep import Sweep
from common.measurement.collective_calls import Operation, measure
from pytorch_impl import model
from pytorch_impl.libraries import BY_HAND, GLOO, LIBRARY, NCCL
from pytorch_impl.point_to_point import carry_out
from pytorch_impl.world import join, leave


def main() -> None:
    """Join the world that torchrun started and measure the collectives in it, as the command line says."""
    library, sweep = _choose_library(parse(Sweep, __doc__))
    world, device = join(library, sweep, library.options)
    by_hand = ALGORITHMS.get(library.name)
    forwards = Collectives(world.rank, world.size, device, getattr(torch, sweep.data_type), by_hand=by_hand)
    backwards = dataclasses.replace(forwards, sender=world.size - 1)
    try:
        measure(
            library,
            sweep,
            world,
            # The methods have the collectives' names.
            prepare=lambda name, elements, turned=False: getattr(backwards if turned else forwards, name)(elements),
            barrier=forwards.barrier(0).run,
            facts=_facts(library),
        )
    finally:
        leave()


@dataclass(frozen=True)
class Collectives:
    """Each method prepares the collective of its name, with `elements` elements in this rank's input."""

    rank: int
    size: int
    device: torch.device
    data_type: torch.dtype
    sender: int = 0
    """The rank that sends in send_receive: the first one or the last."""
    by_hand: AllReduce | None = None
    """The algorithm that sums by sends alone; None: torch's all-reduce."""

    def tensor(self, elements: int) -> torch.Tensor:
        """A tensor of zeros, (elements,), on this rank's device."""
        return torch.zeros(elements, dtype=self.data_type, device=self.device)

    def send_receive(self, elements: int) -> Operation:
        """Send the elements of the sender to the rank at the other end. Other ranks do nothing."""
        send_buffer, receive_buffer = self.tensor(elements), self.tensor(elements)
        receiver = self.size - 1 - self.sender

        def call() -> None:
            if self.rank == self.sender:
                dist.send(send_buffer, dst=receiver)
            elif self.rank == receiver:
                dist.recv(receive_buffer, src=self.sender)

        return self._operation(send_buffer, call, receive_buffer)

    def broadcast(self, elements: int) -> Operation:
        """Copy the first rank's elements to every rank, in place."""
        buffer = self.tensor(elements)
        return self._operation(buffer, lambda: dist.broadcast(buffer, src=0), buffer)

    def scatter(self, elements: int) -> Operation:
        """Give each rank an N-th of the first rank's elements, which are views of one tensor."""
        send_buffer, receive_buffer = self.tensor(elements), self.tensor(elements // self.size)
        parts = [*send_buffer.chunk(self.size)] if self.rank == 0 else None
        return self._operation(send_buffer, lambda: dist.scatter(receive_buffer, parts, src=0), receive_buffer)

    def gather(self, elements: int) -> Operation:
        """Collect the elements of all ranks on the first rank, in views of one tensor."""
        send_buffer, receive_buffer = self.tensor(elements), self.tensor(self.size * elements)
        parts = [*receive_buffer.chunk(self.size)] if self.rank == 0 else None
        return self._operation(send_buffer, lambda: dist.gather(send_buffer, parts, dst=0), receive_buffer)

    def all_gather(self, elements: int) -> Operation:
        """Collect the elements of all ranks on every rank, in one tensor."""
        send_buffer, receive_buffer = self.tensor(elements), self.tensor(self.size * elements)
        return self._operation(send_buffer, lambda: dist.all_gather_single(receive_buffer, send_buffer), receive_buffer)

    def reduce(self, elements: int) -> Operation:
        """Sum the elements of all ranks on the first rank, in place.

        The other ranks lose their elements too: torch makes the sums in their tensors.
        """
        buffer = self.tensor(elements)
        return self._operation(buffer, lambda: dist.reduce(buffer, dst=0), buffer)

    def reduce_scatter(self, elements: int) -> Operation:
        """Give each rank an N-th of the sums over all ranks."""
        send_buffer, receive_buffer = self.tensor(elements), self.tensor(elements // self.size)
        return self._operation(
            send_buffer, lambda: dist.reduce_scatter_single(receive_buffer, send_buffer), receive_buffer
        )

    def all_reduce(self, elements: int) -> Operation:
        """Sum the elements of all ranks on every rank, in place.

        So each call needs its elements anew: `load` writes them before the call, outside the clock. Calls right after
        one another add up sums. These soon reach infinity, whose addition takes no longer.
        """
        buffer = self.tensor(elements)
        if self.by_hand is None:
            return self._operation(buffer, lambda: dist.all_reduce(buffer), buffer)
        exchanges, arrivals = [*self.by_hand(self.rank, self.size, elements)], self.tensor(elements)
        return self._operation(buffer, lambda: carry_out(exchanges, buffer, arrivals), buffer)

    def all_to_all(self, elements: int) -> Operation:
        """Give each rank its N-th of every rank's elements."""
        send_buffer, receive_buffer = self.tensor(elements), self.tensor(elements)
        return self._operation(send_buffer, lambda: dist.all_to_all_single(receive_buffer, send_buffer), receive_buffer)

    def barrier(self, elements: int) -> Operation:
        """Hold every rank until all ranks have come."""
        buffer = self.tensor(elements)
        return self._operation(buffer, dist.barrier, buffer)

    def _operation(
        self, send_buffer: torch.Tensor, call: Callable[[], object], receive_buffer: torch.Tensor
    ) -> Operation:
        def run() -> None:
            call()
            # On a CPU the call returns when the collective has ended, on a GPU when it is queued.
            model.synchronize(self.device)

        def load(parts: list[np.ndarray]) -> None:
            send_buffer.copy_(torch.from_numpy(parts[0]))

        return Operation(load, run, results=lambda: [receive_buffer.cpu().numpy()])


def _choose_library(sweep: Sweep) -> tuple[Library, Sweep]:
    """The library that LOCKSTEP_TORCH_LIBRARY names, and the sweep on its kind of device. Raises UserError."""
    libraries = {library.name: library for library in (GLOO, NCCL, *BY_HAND)}
    name = os.environ.get(LIBRARY, GLOO.name)
    if name not in libraries:
        raise UserError(f"{LIBRARY} is {name}: name one of {', '.join(libraries)}.")
    if name == NCCL.name:
        return NCCL, dataclasses.replace(sweep, device="gpu")
    if sweep.device == "gpu":
        raise UserError(f"--device gpu: {GLOO.title} is measured between CPUs; leave it out, or take {NCCL.name}.")
    return libraries[name], dataclasses.replace(sweep, device="cpu")


def _facts(library: Library) -> dict[str, str]:
    """Facts that explain the speed: Gloo's network and threads, or NCCL's version."""
    if library is NCCL:
        return {"NCCL": ".".join(map(str, torch.cuda.nccl.version()))}
    threads = dist.group.WORLD._get_backend(torch.device("cpu")).options._threads
    return {
        "network interface": os.environ.get("GLOO_SOCKET_IFNAME", "as Gloo chooses"),
        "threads of Gloo's that carry out calls": str(threads),
    }


if __name__ == "__main__":
    exit_with_one_line(main)
