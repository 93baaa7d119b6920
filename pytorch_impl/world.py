"""What every strategy on torch.distributed needs around its loop: gathering the records, and leaving in order."""

import torch.distributed as dist

# Keep this import, before init_process_group: its functions take `group.WORLD` as a default argument, so when torch
# imports the module later (DistributedDataParallel does) they hold the process group for ever. destroy_process_group
# then doesn't end Gloo's threads, and one that still has a finished collective's tensors to give back asks for the
# interpreter's lock while the interpreter ends: Python 3.11 answers with pthread_exit, which C++ answers with
# "terminate called without an active exception" (seen in up to half of all launches with torch 2.13.0).
import torch.distributed.nn.functional  # noqa: F401


def all_gather(value: object) -> list:
    """Every rank's `value`, in the order of the ranks, on every rank. Values are pickled."""
    gathered: list = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, value)
    return gathered


def leave() -> None:
    """Leave the world together, once nothing refers to the process group any more: no wrapped model, no optimizer.

    While a process waits at the barrier its Gloo threads give back what earlier collectives held; destroying the group
    joins those threads, with the interpreter's lock held.
    """
    dist.barrier()
    dist.destroy_process_group()
