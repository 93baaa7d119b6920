"""The bare loop of Horovod's all-reduce that the laboratory's horovod_gloo and horovod_mpi are measured against.

tests/benchmarks/collective_peers.py has it started in place of the library's script, whose path comes first, and with
the options of a sweep. Horovod gets the same settings: of its cycle and of how Open MPI waits.
"""

import json
import sys
import time

import horovod.torch as hvd
import torch

from common.laboratory.sweep import Sweep, parse_command_line
from common.measurement import machine
from horovod_impl import world
from horovod_impl.strategies import HorovodOptions


def main() -> None:
    """Join the world that horovodrun or mpirun started, and print the first rank's mean at each size, in seconds."""
    sweep = parse_command_line(__doc__, sys.argv[2:])
    world.prepare(sweep, HorovodOptions())
    hvd.init()
    # Where a rank computes isn't what is compared.
    world.settle(HorovodOptions(), hvd)
    machine.pin(sweep, hvd.local_rank(), hvd.local_size())
    torch.set_num_threads(sweep.threads)
    means = {size_bytes: mean_seconds(size_bytes, sweep) for size_bytes in sweep.size_bytes}
    if hvd.rank() == 0:
        print(json.dumps({"mean_seconds": means}), flush=True)
    hvd.shutdown()


def mean_seconds(size_bytes: int, sweep: Sweep) -> float:
    """Seconds of an all-reduce of so many bytes of float32: the mean over calls one right after the other."""
    own = torch.zeros(size_bytes // 4)
    for _ in range(sweep.warmup_iterations):
        hvd.allreduce_(own, op=hvd.Sum, name="bare")
    started = time.perf_counter()
    for _ in range(sweep.iterations):
        hvd.allreduce_(own, op=hvd.Sum, name="bare")
    return (time.perf_counter() - started) / sweep.iterations


if __name__ == "__main__":
    main()
