"""The bare loop of tf.distribute's all-reduce that the laboratory's tensorflow is measured against: no harness in it.

tests/benchmarks/collective_peers.py has it started in place of the library's script, whose path comes first, and which
it takes turns with, in the script's strategy.
"""

import time
from unittest.mock import patch

import tensorflow as tf

from common.declarations.sweep import Sweep
from tests.benchmarks import peers


def main() -> None:
    """Take turns with the script that the first argument names."""
    made, make = [], tf.distribute.MultiWorkerMirroredStrategy

    def remembered(*arguments) -> tf.distribute.Strategy:
        made.append(make(*arguments))
        return made[-1]

    with patch.object(tf.distribute, "MultiWorkerMirroredStrategy", remembered):
        peers.take_turns(lambda size_bytes, sweep: mean_seconds(size_bytes, sweep, made[-1]))


def mean_seconds(size_bytes: int, sweep: Sweep, strategy: tf.distribute.Strategy) -> float:
    """Seconds of an all-reduce of so many bytes of float32: the mean over calls one right after the other."""
    own = tf.Variable(tf.ones(size_bytes // 4))

    def add() -> tf.Tensor:
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, own.read_value())

    all_reduce = tf.function(lambda: strategy.run(add), autograph=False)
    for _ in range(sweep.warmup_iterations):
        all_reduce()
    started = time.perf_counter()
    for _ in range(sweep.iterations):
        all_reduce()
    return (time.perf_counter() - started) / sweep.iterations


if __name__ == "__main__":
    main()
