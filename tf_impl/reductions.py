"""The sums that MirroredStrategy makes across the devices of one process, alone, and what else goes between devices.

A rank is a device: without GPUs a logical CPU of the one that there is. Logical CPUs share the host's memory, so what
goes from one to another is a reference: a broadcast takes as long at any size. Which of TensorFlow's ways is measured
says the environment variable LOCKSTEP_TF_REDUCTION: tf_reduction_to_one_device (the default, which tf_impl/mirrored.py
takes on CPUs), tf_hierarchical_copy, or tf_mirrored_collectives, which MirroredStrategy takes unless it is told.

To start it: `python tf_impl/reductions.py --workers 4 --collectives all_reduce -b 16 -e 4M`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import UserError, exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("tensorflow")

import os
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from common.contract.collectives import Collective
from common.declarations.library import Library
from common.declarations.sweep import Sweep, parse_command_line
from common.measurement import machine
from common.measurement.collectives import Operation, measure
from common.measurement.world import World
from tf_impl import mlp
from tf_impl.libraries import HIERARCHICAL_COPY, MIRRORED_COLLECTIVES, REDUCTION, REDUCTION_TO_ONE_DEVICE

MirroredStrategy = tf.distribute.MirroredStrategy


def main() -> None:
    """Measure what goes between `--workers` devices of this process, as the command line says."""
    sweep = parse_command_line(__doc__)
    library = chosen(sweep)
    placement = machine.pin(sweep, local_world_size=sweep.workers, replicas=sweep.workers)
    devices = mlp.choose_devices(sweep, sweep.workers)
    across_devices = cross_device_ops(library)
    strategy = MirroredStrategy(devices, across_devices)
    ranks = World(
        placement=placement,
        size=sweep.workers,
        backend=type(across_devices).__name__ if across_devices else "CollectiveAllReduce",
        device=mlp.device_name(devices),
        synchronize=tf.test.experimental.sync_devices,
    )
    measure(
        library,
        sweep,
        ranks,
        prepare=lambda collective, elements: prepare(strategy, collective, elements, sweep.data_type),
        # One process begins a call on all of its devices at once: there is nobody to wait for.
        barrier=lambda: None,
        facts={},
    )


def chosen(sweep: Sweep) -> Library:
    """The library that the environment names. Raises UserError where there is none, or it can't have the ranks."""
    known = {each.name: each for each in (REDUCTION_TO_ONE_DEVICE, HIERARCHICAL_COPY, MIRRORED_COLLECTIVES)}
    name = os.environ.get(REDUCTION, REDUCTION_TO_ONE_DEVICE.name)
    if name not in known:
        raise UserError(f"{REDUCTION}={name}: give it one of {', '.join(known)}, or unset it.")
    if known[name] is HIERARCHICAL_COPY and sweep.workers % 2:
        raise UserError(
            f"--workers {sweep.workers}: HierarchicalCopyAllReduce adds two halves, and leaves the last of an odd "
            "number of devices out; give an even number."
        )
    return known[name]


def cross_device_ops(library: Library) -> tf.distribute.CrossDeviceOps | None:
    """What adds across devices in TensorFlow's words; None: what MirroredStrategy takes unless it is told."""
    if library is REDUCTION_TO_ONE_DEVICE:
        return tf.distribute.ReductionToOneDevice()
    return tf.distribute.HierarchicalCopyAllReduce() if library is HIERARCHICAL_COPY else None


def broadcast(strategy: MirroredStrategy, own: tf.Variable) -> Sequence[tf.Tensor]:
    """The first device's elements, on every device."""
    first, *_ = strategy.experimental_local_results(own)
    copies = tf.distribute.ReductionToOneDevice().broadcast(first.read_value(), destinations=own)
    return strategy.experimental_local_results(copies)


def gather(strategy: MirroredStrategy, own: tf.Variable) -> Sequence[tf.Tensor]:
    """The elements of all, on the first device."""
    with tf.device(strategy.extended.worker_devices[0]):
        return [strategy.gather(strategy.run(own.read_value), axis=0)]


def all_gather(strategy: MirroredStrategy, own: tf.Variable) -> Sequence[tf.Tensor]:
    """The elements of all, on every device."""

    def gather_here() -> tf.Tensor:
        return tf.distribute.get_replica_context().all_gather(own.read_value(), axis=0)

    return strategy.experimental_local_results(strategy.run(gather_here))


def reduce(strategy: MirroredStrategy, own: tf.Variable) -> Sequence[tf.Tensor]:
    """The sums, on the first device."""
    values, first = strategy.run(own.read_value), strategy.extended.worker_devices[0]
    return [strategy.extended.reduce_to(tf.distribute.ReduceOp.SUM, values, destinations=first)]


def all_reduce(strategy: MirroredStrategy, own: tf.Variable) -> Sequence[tf.Tensor]:
    """The sums, on every device: the call with which a training step sums gradients."""
    values = strategy.run(own.read_value)
    [sums] = strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, [(values, own)])
    return strategy.experimental_local_results(sums)


CALLS: dict[Collective, Callable[[MirroredStrategy, tf.Variable], Sequence[tf.Tensor]]] = {
    Collective.BROADCAST: broadcast,
    Collective.GATHER: gather,
    Collective.ALL_GATHER: all_gather,
    Collective.REDUCE: reduce,
    Collective.ALL_REDUCE: all_reduce,
}


def prepare(strategy: MirroredStrategy, collective: Collective, elements: int, data_type: str) -> Operation:
    """The operation of a collective, for which each device has a variable of its own with so many elements."""
    with strategy.scope():
        own = tf.Variable(tf.zeros(elements, data_type), synchronization=tf.VariableSynchronization.ON_READ)
    of_devices = strategy.experimental_local_results(own)
    # Compiled, as the step is in which gradients are summed.
    call = tf.function(lambda: CALLS[collective](strategy, own), autograph=False)
    got: Sequence[tf.Tensor] = ()

    def load(parts: list[np.ndarray]) -> None:
        for variable, part in zip(of_devices, parts, strict=True):
            variable.assign(part)

    def run() -> None:
        nonlocal got
        got = call()
        # On CPUs a compiled function returns when it has its results, on GPUs before.
        if "GPU" in of_devices[0].device:
            tf.test.experimental.sync_devices()

    def results() -> list[np.ndarray | None]:
        # What goes to the first device alone is nobody else's.
        return [*(each.numpy() for each in got), *[None] * (len(of_devices) - len(got))]

    return Operation(load, run, results)


if __name__ == "__main__":
    exit_with_one_line(main)
