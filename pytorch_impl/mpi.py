"""MPI, through mpi4py: joining mpirun's world, and averaging torch_sync_sgd's gradients in shared memory."""

import atexit
import importlib.util
import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import nn

from common import errors
from common.contract.model import parameter_bytes
from common.contract.task import Task
from common.declarations.arguments import check_world_size
from common.declarations.products import Products
from common.declarations.slurm import is_task
from common.declarations.strategy import MPI_RANKS
from common.declarations.sweep import Sweep
from common.errors import REFUSED_STATUS, print_refusal
from common.measurement import machine
from common.measurement.world import World
from pytorch_impl import model
from pytorch_impl.strategies import SyncSgdOptions

if TYPE_CHECKING:
    from mpi4py import MPI

_MPIRUN_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK")
"""Environment variables with the rank of a process that Open MPI's or MPICH's mpirun started."""


def is_launched() -> bool:
    """Whether mpirun started this process."""
    return any(name in os.environ for name in _MPIRUN_RANKS)


def starter_of(options: SyncSgdOptions) -> Literal["mpirun", "srun"] | None:
    """What started this process for MPI, if anything did.

    Where a site has PMIx as Slurm's default, srun tells every task of it: MPI is meant where the options say so alone.
    """
    if is_launched():
        return "mpirun"
    return "srun" if options.backend == "mpi" and is_task() and "PMIX_RANK" in os.environ else None


def join(limits: Task | Sweep | Products) -> "tuple[World, torch.device, MPI.Comm]":
    """Join the world that mpirun or srun started. Return the world, this worker's device, and MPI's communicator.

    Ends this program where mpi4py isn't installed. The first rank prints one line.
    """
    if importlib.util.find_spec("mpi4py") is None:
        if any(os.environ.get(name) == "0" for name in {*_MPIRUN_RANKS, *MPI_RANKS}):
            print_refusal(
                f"This was started over MPI, but mpi4py isn't installed for {sys.executable}: run `nox -s torch` once, "
                "or `pip install mpi4py`."
            )
        sys.exit(REFUSED_STATUS)
    # Open MPI 5.0 complains on every rank that UCX, one of its ways to remote memory, finds no network to work on.
    os.environ.setdefault("OMPI_MCA_osc", "^ucx")
    from mpi4py import MPI  # Importing it starts MPI, so mpirun must have started this process.

    communicator = MPI.COMM_WORLD
    atexit.register(_abort_after_a_failure, communicator)
    node = communicator.Split_type(MPI.COMM_TYPE_SHARED)
    check_world_size(limits, communicator.size, "mpirun")
    # mpirun may have bound each rank to one core, but cores to pin are cut from those of all ranks on a host. What srun
    # binds stays.
    if is_launched():
        os.sched_setaffinity(0, set().union(*node.allgather(os.sched_getaffinity(0))))
    pinning = machine.pin(limits, node.rank, node.size)
    device = model.choose_device(limits, node.rank, node.size)
    world = World(
        pinning=pinning,
        rank=communicator.rank,
        size=communicator.size,
        backend="mpi, shared memory" if node.size == communicator.size else "mpi",
        device=model.device_name(device),
        all_gather=communicator.allgather,
        synchronize=partial(model.synchronize, device),
    )
    return world, device, communicator


def _abort_after_a_failure(communicator: "MPI.Comm") -> None:
    """End the other ranks as well where this one can't go on: MPI's own way out would wait for them."""
    # Python keeps the exception that nobody has caught.
    if errors.has_failed or hasattr(sys, "last_value"):
        communicator.Abort(errors.FAILED_STATUS)


def send_weights(world: "MPI.Comm", parameters: list[nn.Parameter]) -> None:
    """Send rank 0's weights, point to point, to every sibling."""
    for parameter in parameters:
        values = np.ascontiguousarray(parameter.data.cpu().numpy())
        if world.rank > 0:
            world.Recv(values, source=0)
            parameter.data.copy_(torch.from_numpy(values))
            continue
        for sibling in range(1, world.size):
            world.Send(values, dest=sibling)


class GradientMean:
    """Averages gradients, flattened into one array, over all workers.

    On one machine every worker writes its gradients into shared memory (MPI-3.1, section 11.2.3). It then sums one part
    of all workers' gradients, and reads the sums of the other parts. Each byte is written and read in place, and
    crosses no socket. Over several machines MPI's own all-reduce sums the gradients.
    """

    def __init__(self, world: "MPI.Comm", task: Task) -> None:
        from mpi4py import MPI

        self._world, self._window = world, None
        count = parameter_bytes(task) // 4
        self._local = self._mean = torch.empty(count)
        node = world.Split_type(MPI.COMM_TYPE_SHARED)
        if node.size < world.size:
            return
        # Behind rank 0's own gradients its segment has room for the mean.
        self._window = MPI.Win.Allocate_shared(4 * count * (2 if node.rank == 0 else 1), 4, comm=node)
        buffers = [self._window.Shared_query(rank)[0] for rank in range(node.size)]
        segments = [torch.frombuffer(buffer, dtype=torch.float32) for buffer in buffers]
        self._gradients, self._mean = [segment[:count] for segment in segments], segments[0][count:]
        self._local = self._gradients[node.rank]
        ends = np.linspace(0, count, node.size + 1).astype(int)
        self._part = slice(ends[node.rank], ends[node.rank + 1])

    def __call__(self, parameters: list[nn.Parameter]) -> None:
        """Leave the mean over all workers in every parameter's `grad`."""
        gradients = [parameter.grad.flatten() for parameter in parameters]
        if gradients[0].is_cuda:
            self._local.copy_(torch.cat(gradients))
        else:
            torch.cat(gradients, out=self._local)
        if self._window is None:
            from mpi4py import MPI

            self._world.Allreduce(MPI.IN_PLACE, self._local.numpy())
            self._local /= self._world.size
        else:
            self._meet()
            self._sum_part()
            self._meet()
        means = self._mean.split([gradient.numel() for gradient in gradients])
        for parameter, mean in zip(parameters, means, strict=True):
            parameter.grad = mean.view_as(parameter).to(parameter.device)

    def _sum_part(self) -> None:
        first, *others = [gradients[self._part] for gradients in self._gradients]
        total = self._mean[self._part]
        torch.add(first, others.pop() if others else 0, out=total)
        for gradients in others:
            total += gradients
        total /= self._world.size

    def _meet(self) -> None:
        """Wait for all workers, after which what they wrote can be read."""
        self._window.Sync()
        self._world.Barrier()
        self._window.Sync()
