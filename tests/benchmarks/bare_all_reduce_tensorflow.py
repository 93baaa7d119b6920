"""The bare loop of tf.distribute's all-reduce that the laboratory's tensorflow is measured against: no harness in it.

tests/benchmarks/collective_peers.py has it started in place of the library's script, whose path comes first, and with
the options of a sweep. As TensorFlow has no launcher, the cluster is started, met and joined as the library's.
"""

import json
import sys
import time
from typing import TYPE_CHECKING

from common.errors import exit_with_one_line
from common.laboratory.sweep import Sweep, parse_command_line
from common.measurement import machine
from tf_impl import cluster
from tf_impl.libraries import COLLECTIVES

if TYPE_CHECKING:
    import tensorflow as tf


def main() -> None:
    """Start the ranks, or, as one of them, measure: the first prints its mean at each size, in seconds."""
    sweep = parse_command_line(__doc__, sys.argv[2:])
    cluster.start_ranks_unless_given(COLLECTIVES, sweep)
    measure(sweep)


def measure(sweep: Sweep) -> None:
    """Join the cluster as the rank that TF_CONFIG names, and measure every size."""
    # Not before: the process that only starts the others needs none.
    import tensorflow as tf

    from tf_impl import mlp, world

    place = world.find_cluster(("worker",))
    # Where a rank computes isn't what is compared.
    machine.pin(sweep, place.index, sweep.workers)
    mlp.choose_devices(sweep, 1, place.index, sweep.workers)
    cluster.meet(place, sweep.deadline_seconds)
    ring = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(world.resolver(place), ring)
    means = {size_bytes: mean_seconds(size_bytes, sweep, strategy) for size_bytes in sweep.size_bytes}
    if place.index == 0:
        print(json.dumps({"mean_seconds": means}), flush=True)
    # A worker that left while the other one still reads the last answer would look lost to it.
    world.all_gather(strategy, None)


def mean_seconds(size_bytes: int, sweep: Sweep, strategy: "tf.distribute.Strategy") -> float:
    """Seconds of an all-reduce of so many bytes of float32: the mean over calls one right after the other."""
    import tensorflow as tf

    own = tf.Variable(tf.zeros(size_bytes // 4))

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
    exit_with_one_line(main)
