"""mpi4py's own benchmarks, taking turns with the laboratory: each runs unchanged but for its arguments and its memory.

Their memory is NumPy's, and written, as the laboratory's is. They would take memory that processes could share, and
never write to some of it: of such memory the kernel hands out one page of zeros, which stays in the cache.

tests/benchmarks/collective_peers.py has it started in place of the library's script, whose path comes first, and has
put the demos where Python finds them.
"""

import contextlib
import importlib
import io
import os

import numpy as np

from common.declarations.sweep import Sweep
from tests.benchmarks import peers


def mean_seconds(size_bytes: int, sweep: Sweep) -> float:
    """Seconds of a call of so many bytes, as the demo prints them on the first rank; elsewhere 0.

    The demo goes through all powers of two up to this one.
    """
    name, before, timed = os.environ[peers.PEER], sweep.warmup_iterations, sweep.iterations
    demo = importlib.import_module(name)
    demo.allocate = lambda capacity_bytes: np.ones(capacity_bytes, np.uint8)
    often = {"skip": before, "loop": timed, "skip_large": before, "loop_large": timed}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        getattr(demo, name)(**often, MAX_MSG_SIZE=size_bytes)
    if not printed.getvalue():
        return 0.0
    size, microseconds = printed.getvalue().splitlines()[-1].split()
    assert int(size) == size_bytes
    return float(microseconds) / 1e6


if __name__ == "__main__":
    peers.take_turns(mean_seconds)
