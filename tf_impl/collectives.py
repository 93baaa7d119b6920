"""TensorFlow's collectives, alone: one process per rank, which send over gRPC.

MultiWorkerMirroredStrategy uses three of them. Its all-reduce sums the gradients, its all-gather concatenates the
workers' values, and its broadcast sends the first worker's initial weights to all. No strategy uses the all-to-all.
TensorFlow has no launcher: without a cluster in TF_CONFIG, or a step of Slurm around it, this program starts its
`--workers` itself.

To start it: `python tf_impl/collectives.py --workers 4 --collectives all_reduce -b 8 -e 4M`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.declarations.arguments import parse
from common.declarations.sweep import Sweep
from common.errors import exit_with_one_line, require_framework
from tf_impl.cluster import start_unless_given
from tf_impl.libraries import COLLECTIVES

if __name__ == "__main__":
    require_framework("tensorflow")
    # TensorFlow isn't imported yet: a process that only starts the others doesn't need it.
    exit_with_one_line(lambda: start_unless_given(COLLECTIVES, __doc__))

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import tensorflow as tf

from common.measurement.collective_calls import Operation, measure
from tf_impl import world

GROUP_KEY = 2**20
"""The group of all ranks in operations that no strategy makes. A strategy counts its groups from 1."""


def main() -> None:
    """Measure the collectives as one rank of the cluster that TF_CONFIG or Slurm names."""
    sweep = parse(Sweep, __doc__)
    with world.joined(sweep, backend="RING") as (cluster_world, strategy):
        collectives = Collectives(strategy, cluster_world.rank, cluster_world.size, sweep.data_type)
        measure(
            COLLECTIVES,
            sweep,
            cluster_world,
            # The methods have the collectives' names.
            prepare=lambda name, elements: getattr(collectives, name)(elements),
            # TensorFlow has no barrier. An all-reduce ends nowhere before it has begun everywhere.
            barrier=collectives.all_reduce(1).run,
            facts={"rpc layer": strategy.cluster_resolver.rpc_layer},
        )


@dataclass(frozen=True)
class Collectives:
    """Each method prepares the collective of its name, with `elements` elements in this rank's input."""

    strategy: tf.distribute.Strategy
    rank: int
    size: int
    data_type: str
    instance_keys: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    """Keys of the group's collectives. They agree, since all ranks make the same collectives in the same order."""

    def variable(self, elements: int) -> tf.Variable:
        """A variable of zeros, (elements,), on this rank's device."""
        with tf.device(self.strategy.extended.worker_devices[0]):
            return tf.Variable(tf.zeros(elements, self.data_type))

    def broadcast(self, elements: int) -> Operation:
        """Copy the first rank's elements to every rank, as the strategy initialises variables.

        Sender and receivers are different operations, so the ranks run different programs.
        """
        send_buffer = self.variable(elements)
        key = next(self.instance_keys)
        shared = {"group_size": self.size, "group_key": GROUP_KEY, "instance_key": key, "communication_hint": "ring"}

        @tf.function(autograph=False)
        def compiled() -> tf.Tensor:
            with tf.device(send_buffer.device):
                if self.rank == 0:
                    return tf.raw_ops.CollectiveBcastSendV2(input=send_buffer.read_value(), **shared)
                return tf.raw_ops.CollectiveBcastRecvV2(shape=[elements], T=send_buffer.dtype, **shared)

        return self._operation(send_buffer, compiled)

    def all_gather(self, elements: int) -> Operation:
        """Collect the elements of all ranks on every rank, by the strategy's call.

        That call gathers the lengths of the parts first, since parts may differ in length.
        """
        send_buffer = self.variable(elements)

        def gather() -> tf.Tensor:
            return tf.distribute.get_replica_context().all_gather(send_buffer.read_value(), axis=0)

        return self._operation(send_buffer, tf.function(lambda: self.strategy.run(gather), autograph=False))

    def all_reduce(self, elements: int) -> Operation:
        """Sum the elements of all ranks on every rank, by the strategy's call."""
        send_buffer = self.variable(elements)

        def add() -> tf.Tensor:
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, send_buffer.read_value())

        return self._operation(send_buffer, tf.function(lambda: self.strategy.run(add), autograph=False))

    def all_to_all(self, elements: int) -> Operation:
        """Give each rank its N-th of every rank's elements."""
        send_buffer = self.variable(elements)
        key = next(self.instance_keys)

        @tf.function(autograph=False)
        def compiled() -> tf.Tensor:
            with tf.device(send_buffer.device):
                exchanged = tf.raw_ops.CollectiveAllToAllV2(
                    input=tf.reshape(send_buffer.read_value(), (self.size, -1)),
                    group_size=self.size,
                    group_key=GROUP_KEY,
                    instance_key=key,
                    ordering_token=[],
                    communication_hint="ring",
                )
                return tf.reshape(exchanged, [-1])

        return self._operation(send_buffer, compiled)

    def _operation(self, send_buffer: tf.Variable, compiled: Callable[[], tf.Tensor]) -> Operation:
        result: tf.Tensor | None = None

        def run() -> None:
            nonlocal result
            result = compiled()
            # On a CPU a compiled function returns with its result, on a GPU earlier.
            if "GPU" in send_buffer.device:
                world.synchronize()

        return Operation(load=lambda parts: send_buffer.assign(parts[0]), run=run, results=lambda: [result.numpy()])


if __name__ == "__main__":
    exit_with_one_line(main)
