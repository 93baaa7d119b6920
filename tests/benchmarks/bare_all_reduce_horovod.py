"""The bare loop of Horovod's all-reduce that the laboratory's horovod_gloo and horovod_mpi are measured against.

tests/benchmarks/collective_peers.py has it started in place of the library's script, whose path comes first, and which
it takes turns with. Horovod has the script's settings: of its cycle and of how Open MPI waits.
"""

import time

import horovod.torch as hvd
import torch

from common.declarations.sweep import Sweep
from tests.benchmarks import peers


def mean_seconds(size_bytes: int, sweep: Sweep) -> float:
    """Seconds of an all-reduce of so many bytes of float32: the mean over calls one right after the other."""
    own = torch.ones(size_bytes // 4)
    for _ in range(sweep.warmup_iterations):
        hvd.allreduce_(own, op=hvd.Sum, name="bare")
    started = time.perf_counter()
    for _ in range(sweep.iterations):
        hvd.allreduce_(own, op=hvd.Sum, name="bare")
    return (time.perf_counter() - started) / sweep.iterations


if __name__ == "__main__":
    peers.take_turns(mean_seconds)
