"""Loops without any harness that the laboratory takes turns with: each library's all-reduce, and mpi4py's demos.

tests/benchmarks/collective_peers.py has this started in place of the library's script, whose path comes first, and has
put the demos where Python finds them. A loop is in the script's own world, with the script's settings.
"""

import contextlib
import importlib
import io
import os
import time
from collections.abc import Callable

import numpy as np

from common.declarations.sweep import Sweep
from tests.benchmarks import paired, peers


def gloo(size_bytes: int) -> Callable[[], object]:
    """torch.distributed's, in the script's process group."""
    import torch
    import torch.distributed as dist

    own = torch.ones(size_bytes // 4)
    return lambda: dist.all_reduce(own)


def mpi(size_bytes: int) -> Callable[[], object]:
    """mpi4py's. It is told the type of its arrays, as the tutorial does where speed counts."""
    from mpi4py import MPI  # Starts MPI, for which the script has its settings.

    own, total = ([np.ones(size_bytes // 4, np.float32), MPI.FLOAT] for _ in range(2))
    return lambda: MPI.COMM_WORLD.Allreduce(own, total)


def horovod(size_bytes: int) -> Callable[[], object]:
    """Horovod's, with the script's settings of its cycle and of how Open MPI waits."""
    import horovod.torch as hvd
    import torch

    own = torch.ones(size_bytes // 4)
    return lambda: hvd.allreduce_(own, op=hvd.Sum, name="bare")


def tensorflow(size_bytes: int, made: list) -> Callable[[], object]:
    """tf.distribute's, in the strategy that the script has made."""
    import tensorflow as tf

    own = tf.Variable(tf.ones(size_bytes // 4))

    def add() -> tf.Tensor:
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, own.read_value())

    return tf.function(lambda: made[-1].run(add), autograph=False)


def mean_of_loop(prepare: Callable[[int], Callable[[], object]], size_bytes: int, sweep: Sweep) -> float:
    """Seconds of an all-reduce of so many bytes of float32: the mean over calls one right after the other."""
    call = prepare(size_bytes)
    for _ in range(sweep.warmup_iterations):
        call()
    started = time.perf_counter()
    for _ in range(sweep.iterations):
        call()
    return (time.perf_counter() - started) / sweep.iterations


def mean_of_demo(name: str, size_bytes: int, sweep: Sweep) -> float:
    """Seconds of a call of so many bytes, as the demo prints them on the first rank; elsewhere 0.

    The demo runs unchanged but for its arguments and its memory, and goes through all powers of two up to this size.
    Its memory is NumPy's, and written, as the laboratory's is. It would take memory that processes could share, and
    never write to some of it: of such memory the kernel hands out one page of zeros, which stays in the cache.
    """
    before, timed = sweep.warmup_iterations, sweep.iterations
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


def main() -> None:
    """Take turns with the script that the first argument names."""
    name = os.environ[peers.PEER]
    if name.startswith("osu_"):
        peers.take_turns(lambda size_bytes, sweep: mean_of_demo(name, size_bytes, sweep))
        return
    prepare = {"gloo": gloo, "mpi": mpi, "horovod_gloo": horovod, "horovod_mpi": horovod}.get(peers.PEERS[name].library)
    if prepare is None:
        import tensorflow as tf

        made = paired.remember(tf.distribute, "MultiWorkerMirroredStrategy")

        def prepare(size_bytes: int) -> Callable[[], object]:
            return tensorflow(size_bytes, made)

    peers.take_turns(lambda size_bytes, sweep: mean_of_loop(prepare, size_bytes, sweep))


if __name__ == "__main__":
    main()
