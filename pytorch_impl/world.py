"""What every strategy on torch.distributed needs around its loop: gathering the records, and leaving in order."""

import torch.distributed as dist

# Keep this import, which must come before init_process_group: the module's functions have `group.WORLD` as a default
# argument, so when torch imports it later (DistributedDataParallel does) they hold the process group for ever, and
# destroy_process_group doesn't end Gloo's threads. One that still has a finished collective's tensors to give back asks
# for the interpreter's lock; while the interpreter ends, Python 3.11 answers with pthread_exit, and C++ answers that
# with "terminate called without an active exception" (pytorch issue 190489; 8 of 42 launches with torch 2.13.0).
import torch.distributed.nn.functional  # noqa: F401


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
    dist.destroy_process_group()
