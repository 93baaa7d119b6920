"""torch.distributed's collectives, alone: one process per rank, over Gloo between CPUs or over NCCL between GPUs.

Every function below prepares one collective: its tensors are made once, and what is timed is the one call that a
program would make. Compare pytorch_impl/collectives_mpi.py, whose calls are MPI's own, from which torch has its names.
The environment variable LOCKSTEP_TORCH_LIBRARY says what carries: gloo (the default) or nccl.

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

import torch
import torch.distributed as dist

from common.contract.collectives import Collective
from common.declarations.library import Library
from common.declarations.sweep import Sweep, parse_command_line
from common.measurement.collectives import Operation, measure
from pytorch_impl import mlp, world
from pytorch_impl.libraries import GLOO, LIBRARY, NCCL


@dataclass(frozen=True)
class Ranks:
    """All ranks, and which of them this process is."""

    rank: int
    size: int
    device: torch.device
    data_type: torch.dtype
    sender: int = 0
    """Who sends in send_receive: the first one, or the last."""

    def tensor(self, elements: int) -> torch.Tensor:
        """Room for so many, (elements,), on this rank's device."""
        return torch.zeros(elements, dtype=self.data_type, device=self.device)


def main() -> None:
    """Join the world that torchrun started and measure the collectives in it, as the command line says."""
    library, sweep = _chosen(parse_command_line(__doc__))
    workers, device = world.join(library, sweep, library.options)
    ranks = Ranks(workers.rank, workers.size, device, getattr(torch, sweep.data_type))
    turned = dataclasses.replace(ranks, sender=workers.size - 1)
    try:
        measure(
            library,
            sweep,
            workers,
            prepare=lambda collective, elements, backwards=False: OPERATIONS[collective](
                turned if backwards else ranks, elements
            ),
            barrier=barrier(ranks, 0).run,
            facts=_facts(library),
        )
    finally:
        world.leave()


def send_receive(ranks: Ranks, elements: int) -> Operation:
    """The sender's elements to the rank at the other end. The others, if any, have nothing to do."""
    own, received = ranks.tensor(elements), ranks.tensor(elements)
    receiver = ranks.size - 1 - ranks.sender

    def call() -> None:
        if ranks.rank == ranks.sender:
            dist.send(own, dst=receiver)
        elif ranks.rank == receiver:
            dist.recv(received, src=ranks.sender)

    return _operation(own, call, received)


def broadcast(ranks: Ranks, elements: int) -> Operation:
    """The first rank's elements to every rank, in place of what they had there."""
    own = ranks.tensor(elements)
    return _operation(own, lambda: dist.broadcast(own, src=0), own)


def scatter(ranks: Ranks, elements: int) -> Operation:
    """Of the first rank's elements each rank gets an N-th: a tensor each, here views of one."""
    own, part = ranks.tensor(elements), ranks.tensor(elements // ranks.size)
    parts = [*own.chunk(ranks.size)] if ranks.rank == 0 else None
    return _operation(own, lambda: dist.scatter(part, parts, src=0), part)


def gather(ranks: Ranks, elements: int) -> Operation:
    """The first rank gets the elements of all, in a tensor each: here views of one."""
    own, everyones = ranks.tensor(elements), ranks.tensor(ranks.size * elements)
    parts = [*everyones.chunk(ranks.size)] if ranks.rank == 0 else None
    return _operation(own, lambda: dist.gather(own, parts, dst=0), everyones)


def all_gather(ranks: Ranks, elements: int) -> Operation:
    """Every rank gets the elements of all, in one tensor."""
    own, everyones = ranks.tensor(elements), ranks.tensor(ranks.size * elements)
    return _operation(own, lambda: dist.all_gather_single(everyones, own), everyones)


def reduce(ranks: Ranks, elements: int) -> Operation:
    """The first rank gets the sums over all ranks, in place of its own elements.

    The others' elements are lost all the same: their tensors are where the sums are made.
    """
    own = ranks.tensor(elements)
    return _operation(own, lambda: dist.reduce(own, dst=0), own)


def reduce_scatter(ranks: Ranks, elements: int) -> Operation:
    """Of the sums over all ranks each rank gets an N-th."""
    own, part = ranks.tensor(elements), ranks.tensor(elements // ranks.size)
    return _operation(own, lambda: dist.reduce_scatter_single(part, own), part)


def all_reduce(ranks: Ranks, elements: int) -> Operation:
    """Every rank gets the sums over all ranks, in place of its own elements.

    So each call needs its elements anew: they are loaded before it, outside the clock. Where calls come one right after
    the other they add up sums. These soon reach infinity, whose addition takes no longer.
    """
    own = ranks.tensor(elements)
    return _operation(own, lambda: dist.all_reduce(own), own)


def all_to_all(ranks: Ranks, elements: int) -> Operation:
    """Of every rank's elements each rank gets its N-th."""
    own, exchanged = ranks.tensor(elements), ranks.tensor(elements)
    return _operation(own, lambda: dist.all_to_all_single(exchanged, own), exchanged)


def barrier(ranks: Ranks, elements: int) -> Operation:
    """No rank goes on before all have come."""
    own = ranks.tensor(elements)
    return _operation(own, dist.barrier, own)


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


def _operation(own: torch.Tensor, call: Callable[[], object], result: torch.Tensor) -> Operation:
    def run() -> None:
        call()
        # On a CPU the call returns when it's done, on a GPU when it waits in a queue.
        mlp.synchronize(own.device)

    return Operation(
        load=lambda parts: own.copy_(torch.from_numpy(parts[0])),
        run=run,
        results=lambda: [result.cpu().numpy()],
    )


def _chosen(sweep: Sweep) -> tuple[Library, Sweep]:
    """The library that LOCKSTEP_TORCH_LIBRARY names, and the sweep on its kind of device. Raises UserError."""
    libraries = {library.name: library for library in (GLOO, NCCL)}
    name = os.environ.get(LIBRARY, GLOO.name)
    if name not in libraries:
        raise UserError(f"{LIBRARY} is {name}: name one of {', '.join(libraries)}.")
    if name == NCCL.name:
        return NCCL, dataclasses.replace(sweep, device="gpu")
    if sweep.device == "gpu":
        raise UserError(f"--device gpu: {GLOO.title} is measured between CPUs; leave it out, or take {NCCL.name}.")
    return GLOO, dataclasses.replace(sweep, device="cpu")


def _facts(library: Library) -> dict[str, str]:
    """What tells why it's as fast as it is: the network and the threads that Gloo has, or NCCL's version."""
    if library is NCCL:
        return {"NCCL": ".".join(map(str, torch.cuda.nccl.version()))}
    threads = dist.group.WORLD._get_backend(torch.device("cpu")).options._threads
    return {
        "network interface": os.environ.get("GLOO_SOCKET_IFNAME", "as Gloo chooses"),
        "threads of Gloo's that carry out calls": str(threads),
    }


if __name__ == "__main__":
    exit_with_one_line(main)
