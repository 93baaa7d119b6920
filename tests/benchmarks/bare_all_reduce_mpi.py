"""The bare loop of mpi4py's all-reduce that the laboratory's mpi is measured against: no harness in it.

tests/benchmarks/collective_peers.py has it started in place of the library's script, whose path comes first, and with
the options of a sweep.
"""

import json
import sys
import time

import numpy as np
from mpi4py import MPI

from common.laboratory.sweep import Sweep, parse_command_line
from common.measurement import machine


def main() -> None:
    """Join the world that mpirun started, and print the first rank's mean at each size, in seconds."""
    sweep, world = parse_command_line(__doc__, sys.argv[2:]), MPI.COMM_WORLD
    # Where a rank computes isn't what is compared.
    machine.pin(sweep, world.rank, world.size)
    means = {size_bytes: mean_seconds(size_bytes, sweep, world) for size_bytes in sweep.size_bytes}
    if world.rank == 0:
        print(json.dumps({"mean_seconds": means}), flush=True)


def mean_seconds(size_bytes: int, sweep: Sweep, world: MPI.Comm) -> float:
    """Seconds of an all-reduce of so many bytes of float32: the mean over calls one right after the other."""
    own, total = np.ones(size_bytes // 4, np.float32), np.ones(size_bytes // 4, np.float32)
    for _ in range(sweep.warmup_iterations):
        world.Allreduce(own, total)
    started = time.perf_counter()
    for _ in range(sweep.iterations):
        world.Allreduce(own, total)
    return (time.perf_counter() - started) / sweep.iterations


if __name__ == "__main__":
    main()
