"""What strategies on torch.distributed need around their loops: joining the world, gathering records, leaving."""

import gc
import os
from datetime import timedelta
from functools import partial

import torch
import torch.distributed as dist

# Keep this import, which must come before init_process_group: the module's functions have `group.WORLD` as a default
# argument, so when torch imports it later (DistributedDataParallel does) they hold the process group for ever, and
# destroy_process_group doesn't end Gloo's threads. One that still has a finished collective's tensors to give back asks
# for the interpreter's lock; while the interpreter ends, Python 3.11 answers with pthread_exit, and C++ answers that
# with "terminate called without an active exception" (pytorch issue 190489; 8 of 42 launches with torch 2.13.0).
import torch.distributed.nn.functional

from common import machine
from common.config import Config, check_world_size
from common.errors import UserError
from common.run import Run
from pytorch_impl import model as contract


def join(config: Config, strategy: str, one_model: bool = False) -> tuple[Run, torch.device]:
    """Join the world that torchrun started: this worker's run, and the device it computes on.

    Raises UserError when torchrun didn't start it, or what the command line asks for isn't here.
    """
    if "RANK" not in os.environ:
        script = f"pytorch_impl/{strategy.removeprefix('torch_')}.py"
        raise UserError(f"{strategy} is started by torchrun: torchrun --nproc-per-node N {script}")
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    local_rank, local_world_size = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    check_world_size(config, world_size, "torchrun")
    placement = machine.pin(config, local_rank, local_world_size)
    device = contract.choose_device(config, local_rank, local_world_size)
    backend = choose_backend(config, device)
    dist.init_process_group(backend, timeout=timedelta(seconds=config.deadline_seconds))
    run = Run(
        config,
        strategy=strategy,
        framework="torch",
        placement=placement,
        rank=rank,
        world_size=world_size,
        one_model=one_model,
        backend=backend,
        device=contract.device_name(device),
        all_gather=all_gather,
        synchronize=partial(contract.synchronize, device),
    )
    return run, device


def choose_backend(config: Config, device: torch.device) -> str:
    """What `--backend` asks for; left alone, NCCL between GPUs and Gloo between CPUs.

    Raises UserError for one that this build of torch lacks, or that doesn't reach the device.
    """
    if config.backend == "auto":
        return "nccl" if device.type == "cuda" else "gloo"
    if not dist.is_backend_available(config.backend):
        raise UserError(
            f"--backend {config.backend}: this build of torch lacks it; install one that has it, or use gloo."
        )
    if config.backend == "nccl" and device.type != "cuda":
        raise UserError("--backend nccl joins GPUs, but the workers compute on the CPU: leave --backend out.")
    return config.backend


def all_gather(value: object) -> list:
    """Every rank's `value`, in the order of the ranks, on every rank. Values are pickled."""
    gathered: list = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, value)
    return gathered


def leave() -> None:
    """Leave the world and end its threads. Call it once the wrapped model is gone: after the function that held it.

    A DistributedDataParallel that is still alive keeps the process group alive too: then the threads stay, or end when
    the model does, with the interpreter's lock held that they wait for (pytorch issue 56297).
    """
    gc.collect()  # FSDP's modules refer to each other in circles.
    dist.destroy_process_group()
