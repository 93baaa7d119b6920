"""The bare loop of torch.distributed's all-reduce that the laboratory's gloo is measured against: no harness in it.

tests/benchmarks/collective_peers.py has it started in place of the library's script, whose path comes first, and with
the options of a sweep.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist

from common.laboratory.sweep import Sweep, parse_command_line
from common.measurement import machine
from pytorch_impl import world


def main() -> None:
    """Join the world that torchrun started, and print the first rank's mean at each size, in seconds."""
    sweep = parse_command_line(__doc__, sys.argv[2:])
    # Where a rank computes isn't what is compared.
    machine.pin(sweep, int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"]))
    torch.set_num_threads(sweep.threads)
    dist.init_process_group("gloo")
    means = {size_bytes: mean_seconds(size_bytes, sweep) for size_bytes in sweep.size_bytes}
    if dist.get_rank() == 0:
        print(json.dumps({"mean_seconds": means}), flush=True)
    world.leave()


def mean_seconds(size_bytes: int, sweep: Sweep) -> float:
    """Seconds of an all-reduce of so many bytes of float32: the mean over calls one right after the other."""
    own = torch.zeros(size_bytes // 4)
    for _ in range(sweep.warmup_iterations):
        dist.all_reduce(own)
    started = time.perf_counter()
    for _ in range(sweep.iterations):
        dist.all_reduce(own)
    return (time.perf_counter() - started) / sweep.iterations


if __name__ == "__main__":
    main()
