"""The bare loop of torch.distributed's all-reduce that the laboratory's gloo is measured against: no harness in it.

tests/benchmarks/collective_peers.py has it started in place of the library's script, whose path comes first, and which
it takes turns with, in the script's process group.
"""

import time

import torch
import torch.distributed as dist

from common.declarations.sweep import Sweep
from tests.benchmarks import peers


def mean_seconds(size_bytes: int, sweep: Sweep) -> float:
    """Seconds of an all-reduce of so many bytes of float32: the mean over calls one right after the other."""
    own = torch.ones(size_bytes // 4)
    for _ in range(sweep.warmup_iterations):
        dist.all_reduce(own)
    started = time.perf_counter()
    for _ in range(sweep.iterations):
        dist.all_reduce(own)
    return (time.perf_counter() - started) / sweep.iterations


if __name__ == "__main__":
    peers.take_turns(mean_seconds)
