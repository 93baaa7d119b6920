"""TensorFlow's collectives, alone: one process per rank, which send over gRPC.

Programs meet them under MultiWorkerMirroredStrategy: the all-reduce sums the gradients, the all-gather puts the
workers' values together, the broadcast hands everybody the first worker's initial weights. The all-to-all is an
operation that no strategy uses. TensorFlow has no launcher: without a cluster in TF_CONFIG, or a step of Slurm around
it, this program starts its `--workers` itself.

To start it: `python tf_impl/collectives.py --workers 4 --collectives all_reduce -b 8 -e 4M`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.declarations.sweep import parse_command_line
from common.errors import exit_with_one_line, require_framework
from tf_impl import cluster
from tf_impl.libraries import COLLECTIVES

if __name__ == "__main__":
    require_framework("tensorflow")
    # Before TensorFlow is loaded: the process that only starts the others needs none.
    exit_with_one_line(lambda: cluster.start_ranks_unless_given(COLLECTIVES, parse_command_line(__doc__)))

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import tensorflow as tf

from common.contract.collectives import Collective
from common.declarations.arguments import check_world_size
from common.measurement import machine
from common.measurement.collectives import Operation, measure
from common.measurement.world import World
from tf_impl import mlp, world

GROUP_KEY = 2**20
"""Names the group of all ranks in operations that no strategy makes; a strategy counts its groups from 1."""


@dataclass(frozen=True)
class Ranks:
    """All ranks, and which of them this process is."""

    strategy: tf.distribute.Strategy
    rank: int
    size: int
    data_type: str
    instance_keys: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    """Name the collectives of the group, each on all ranks alike: all of them make the same ones in the same order."""

    def variable(self, elements: int) -> tf.Variable:
        """Room for what this rank puts in, (elements,), on its device."""
        with tf.device(self.strategy.extended.worker_devices[0]):
            return tf.Variable(tf.zeros(elements, self.data_type))


def main() -> None:
    """Measure the collectives as one rank of the cluster that TF_CONFIG or Slurm names."""
    sweep = parse_command_line(__doc__)
    place = world.find_cluster(("chief", "worker"))
    everyone, here = place.all_addresses("chief", "worker"), place.neighbours("chief", "worker")
    check_world_size(sweep, len(everyone), "the cluster")
    placement = machine.pin(sweep, here.index(place.address), len(here))
    devices = mlp.choose_devices(sweep, 1, here.index(place.address), len(here))
    communication = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING
    )
    cluster.meet(place, sweep.deadline_seconds)
    with world.one_line_when_it_breaks():
        resolver = world.resolver(place)
        strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver, communication)
        world.check_sum(strategy, len(everyone))
        workers = World(
            placement=placement,
            rank=everyone.index(place.address),
            size=len(everyone),
            backend="RING",
            device=mlp.device_name(devices),
            all_gather=lambda value: world.all_gather(strategy, value),
            synchronize=world.synchronize,
        )
        ranks = Ranks(strategy, workers.rank, workers.size, sweep.data_type)
        measure(
            COLLECTIVES,
            sweep,
            workers,
            prepare=lambda collective, elements: OPERATIONS[collective](ranks, elements),
            # TensorFlow has no barrier; the smallest all-reduce ends nowhere before it has begun everywhere.
            barrier=all_reduce(ranks, 1).run,
            facts={"rpc layer": resolver.rpc_layer},
        )
        # A worker that left while the other one still reads the last answer would look lost to it.
        workers.all_gather(None)


def broadcast(ranks: Ranks, elements: int) -> Operation:
    """The first rank's elements to every rank, by the operations with which the strategy sets a variable's beginning.

    Sender and receivers are different operations, so the ranks run different programs.
    """
    own = ranks.variable(elements)
    key = next(ranks.instance_keys)
    shared = {"group_size": ranks.size, "group_key": GROUP_KEY, "instance_key": key, "communication_hint": "ring"}

    @tf.function(autograph=False)
    def compiled() -> tf.Tensor:
        with tf.device(own.device):
            if ranks.rank == 0:
                return tf.raw_ops.CollectiveBcastSendV2(input=own.read_value(), **shared)
            return tf.raw_ops.CollectiveBcastRecvV2(shape=[elements], T=own.dtype, **shared)

    return _operation(own, compiled)


def all_gather(ranks: Ranks, elements: int) -> Operation:
    """Every rank gets the elements of all, by the strategy's own call.

    That call gathers the parts' lengths first, since it takes parts that differ in length.
    """
    own = ranks.variable(elements)

    def gather() -> tf.Tensor:
        return tf.distribute.get_replica_context().all_gather(own.read_value(), axis=0)

    return _operation(own, tf.function(lambda: ranks.strategy.run(gather), autograph=False))


def all_reduce(ranks: Ranks, elements: int) -> Operation:
    """Every rank gets the sums over all ranks, by the strategy's own call."""
    own = ranks.variable(elements)

    def add() -> tf.Tensor:
        return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, own.read_value())

    return _operation(own, tf.function(lambda: ranks.strategy.run(add), autograph=False))


def all_to_all(ranks: Ranks, elements: int) -> Operation:
    """Of every rank's elements each rank gets its N-th."""
    own = ranks.variable(elements)
    key = next(ranks.instance_keys)

    @tf.function(autograph=False)
    def compiled() -> tf.Tensor:
        with tf.device(own.device):
            exchanged = tf.raw_ops.CollectiveAllToAllV2(
                input=tf.reshape(own.read_value(), (ranks.size, -1)),
                group_size=ranks.size,
                group_key=GROUP_KEY,
                instance_key=key,
                ordering_token=[],
                communication_hint="ring",
            )
            return tf.reshape(exchanged, [-1])

    return _operation(own, compiled)


OPERATIONS: dict[Collective, Callable[[Ranks, int], Operation]] = {
    Collective.BROADCAST: broadcast,
    Collective.ALL_GATHER: all_gather,
    Collective.ALL_REDUCE: all_reduce,
    Collective.ALL_TO_ALL: all_to_all,
}


def _operation(own: tf.Variable, compiled: Callable[[], tf.Tensor]) -> Operation:
    result: tf.Tensor | None = None

    def run() -> None:
        nonlocal result
        result = compiled()
        # On a CPU a compiled function returns when it has its result, on a GPU before.
        if "GPU" in own.device:
            world.synchronize()

    return Operation(load=lambda parts: own.assign(parts[0]), run=run, results=lambda: [result.numpy()])


if __name__ == "__main__":
    exit_with_one_line(main)
