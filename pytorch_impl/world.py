"""Joining and leaving the world of torch.distributed, and gathering values of all its ranks."""

import gc
import os
from datetime import timedelta
from functools import partial

import torch
import torch.distributed as dist

# Keep this import, which must come before init_process_group. The module's functions have `group.WORLD` as a default
# argument. Where torch imports the module later (DistributedDataParallel does), they hold the process group for ever,
# and destroy_process_group doesn't end Gloo's threads. A thread that still has a finished collective's tensors to give
# back asks for the interpreter's lock. While the interpreter ends, Python 3.11 answers with pthread_exit, and C++ with
# "terminate called without an active exception" (pytorch issue 190489; 8 of 42 launches with torch 2.13.0).
import torch.distributed.nn.functional  # noqa: F401 (see above)

from common.contract.task import Task
from common.declarations.arguments import check_world_size
from common.declarations.library import Library
from common.declarations.slurm import task_of_step
from common.declarations.strategy import Strategy
from common.declarations.sweep import Sweep
from common.errors import UserError
from common.measurement import machine
from common.measurement.world import World
from pytorch_impl import model
from pytorch_impl.strategies import BackendOptions


def join(program: Strategy | Library, task: Task | Sweep, options: BackendOptions) -> tuple[World, torch.device]:
    """Join the world that torchrun or srun started. Return the world and this worker's device.

    Raises UserError where neither started this process, or the machine or torch's build lacks what the command line
    asks for.
    """
    if "RANK" not in os.environ and not _take_from_slurm():
        raise UserError(f"{program.name} is started by torchrun: torchrun --nproc-per-node N {program.script}")
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    local_rank, local_world_size = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    check_world_size(task, world_size, "torchrun")
    pinning = machine.pin(task, local_rank, local_world_size)
    # Gloo joins workers that share a GPU, which NCCL refuses.
    device = model.choose_device(task, local_rank, local_world_size, shared=options.backend == "gloo")
    backend = choose_backend(options.backend, device)
    # Without its device NCCL guesses one at the first barrier, and warns.
    own = device if backend == "nccl" else None
    try:
        if not dist.is_initialized():  # Ray Train has joined the ranks before it calls the training function.
            dist.init_process_group(backend, timeout=timedelta(seconds=task.deadline_seconds), device_id=own)
    except dist.DistNetworkError as error:
        if "EADDRINUSE" not in str(error):
            raise
        raise UserError(
            f"Port {os.environ['MASTER_PORT']}, where the ranks meet, is taken: end the program that listens there, or "
            "start the ranks anew, in another step of Slurm's or with another MASTER_PORT."
        ) from error
    world = World(
        pinning=pinning,
        rank=rank,
        size=world_size,
        backend=backend,
        device=model.device_name(device),
        all_gather=all_gather,
        synchronize=partial(model.synchronize, device),
    )
    return world, device


def _take_from_slurm() -> bool:
    """Set the variables of torchrun by those of the step of Slurm, if this process is one of its tasks."""
    task = task_of_step()
    if task is None:
        return False
    os.environ |= {"RANK": str(task.rank), "WORLD_SIZE": str(task.world_size)}
    os.environ |= {"LOCAL_RANK": str(task.local_rank), "LOCAL_WORLD_SIZE": str(task.local_world_size)}
    os.environ |= {"MASTER_ADDR": task.first_host, "MASTER_PORT": str(task.port)}
    return True


def choose_backend(backend: str, device: torch.device) -> str:
    """The backend of `--backend`; for auto, NCCL between GPUs and Gloo between CPUs.

    Raises UserError for a backend that this build of torch lacks, or that doesn't reach the device.
    """
    if backend == "auto":
        return "nccl" if device.type == "cuda" else "gloo"
    if not dist.is_backend_available(backend):
        raise UserError(f"--backend {backend}: this build of torch lacks it; install one that has it, or use gloo.")
    if backend == "nccl" and device.type != "cuda":
        raise UserError("--backend nccl joins GPUs, but the workers compute on the CPU: leave --backend out.")
    return backend


def all_gather(value: object) -> list:
    """Every rank's `value`, in the order of the ranks, on every rank. Values are pickled."""
    gathered: list = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, value)
    return gathered


def leave() -> None:
    """Leave the world and end its threads. Call it after the function that held the wrapped model has returned.

    A DistributedDataParallel that is still alive keeps the process group alive too. Then the threads stay, or end with
    the model, which holds the interpreter's lock that the threads wait for (pytorch issue 56297).
    """
    gc.collect()  # FSDP's modules refer to each other in circles.
    dist.destroy_process_group()
