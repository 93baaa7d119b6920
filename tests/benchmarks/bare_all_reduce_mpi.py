"""The bare loop of mpi4py's all-reduce that the laboratory's mpi is measured against: no harness in it.

It tells the type of its arrays, as mpi4py's tutorial does where speed counts. tests/benchmarks/collective_peers.py has
it started in place of the library's script, whose path comes first, and which it takes turns with.
"""

import time

import numpy as np

from common.declarations.sweep import Sweep
from tests.benchmarks import peers


def mean_seconds(size_bytes: int, sweep: Sweep) -> float:
    """Seconds of an all-reduce of so many bytes of float32: the mean over calls one right after the other."""
    from mpi4py import MPI  # Starts MPI, for which the script has its settings.

    world = MPI.COMM_WORLD
    own, total = ([np.ones(size_bytes // 4, np.float32), MPI.FLOAT] for _ in range(2))
    for _ in range(sweep.warmup_iterations):
        world.Allreduce(own, total)
    started = time.perf_counter()
    for _ in range(sweep.iterations):
        world.Allreduce(own, total)
    return (time.perf_counter() - started) / sweep.iterations


if __name__ == "__main__":
    peers.take_turns(mean_seconds)
