"""MirroredStrategy's reductions and other collectives across the devices of one process, alone.

A rank is a device; without GPUs, a logical device of the CPU. Logical devices share the host's memory and pass
references to one another, so a broadcast takes as long at any size. The environment variable LOCKSTEP_TF_REDUCTION
chooses the library: tf_reduction_to_one_device (the default, which tf_impl/mirrored.py takes on CPUs),
tf_hierarchical_copy, or tf_mirrored_collectives (MirroredStrategy's own default).

To start it: `python tf_impl/reductions.py --workers 4 --collectives all_reduce -b 16 -e 4M`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import UserError, exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("tensorflow")

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import tensorflow as tf

from common.contract.collective_meanings import Collective
from common.declarations.arguments import parse
from common.declarations.library import Library
from common.declarations.sweep import Sweep
from common.measurement.collective_calls import Operation, measure
from tf_impl import model
from tf_impl.devices import world_of
from tf_impl.libraries import HIERARCHICAL_COPY, MIRRORED_COLLECTIVES, REDUCTION, REDUCTION_TO_ONE_DEVICE


def main() -> None:
    """Measure the collectives between `--workers` devices of this process, as the command line says."""
    sweep = parse(Sweep, __doc__)
    library = choose_library(sweep)
    devices = model.choose_devices(sweep, sweep.workers)
    across_devices = cross_device_ops_of(library)
    world = world_of(devices, sweep, type(across_devices).__name__ if across_devices else "CollectiveAllReduce")
    collectives = Collectives(tf.distribute.MirroredStrategy(devices, across_devices))
    measure(
        library,
        sweep,
        world,
        prepare=partial(collectives.prepare, data_type=sweep.data_type),
        # One process begins a call on all of its devices at once, so no device has to wait for another.
        barrier=lambda: None,
        facts={},
    )


def choose_library(sweep: Sweep) -> Library:
    """The library that LOCKSTEP_TF_REDUCTION names.

    Raises UserError for an unknown name, and for a number of ranks that the library can't have.
    """
    libraries = {
        library.name: library for library in (REDUCTION_TO_ONE_DEVICE, HIERARCHICAL_COPY, MIRRORED_COLLECTIVES)
    }
    name = os.environ.get(REDUCTION, REDUCTION_TO_ONE_DEVICE.name)
    if name not in libraries:
        raise UserError(f"{REDUCTION}={name}: give it one of {', '.join(libraries)}, or unset it.")
    if libraries[name] is HIERARCHICAL_COPY and sweep.workers % 2:
        raise UserError(
            f"--workers {sweep.workers}: HierarchicalCopyAllReduce adds two halves, and leaves the last of an odd "
            "number of devices out; give an even number."
        )
    return libraries[name]


def cross_device_ops_of(library: Library) -> tf.distribute.CrossDeviceOps | None:
    """TensorFlow's implementation of the library; None for MirroredStrategy's own default."""
    if library is REDUCTION_TO_ONE_DEVICE:
        return tf.distribute.ReductionToOneDevice()
    return tf.distribute.HierarchicalCopyAllReduce() if library is HIERARCHICAL_COPY else None


@dataclass(frozen=True)
class Collectives:
    """The collectives of a strategy. Each of these methods but `prepare` makes one call, on each device's buffer."""

    strategy: tf.distribute.MirroredStrategy

    def prepare(self, collective: Collective, elements: int, data_type: str) -> Operation:
        """The operation of a collective. Each device has a variable of its own, with `elements` elements."""
        with self.strategy.scope():
            buffer = tf.Variable(tf.zeros(elements, data_type), synchronization=tf.VariableSynchronization.ON_READ)
        variables = self.strategy.experimental_local_results(buffer)
        # Compiled, like a training step that sums gradients.
        call = tf.function(lambda: getattr(self, collective)(buffer), autograph=False)
        received: Sequence[tf.Tensor] = ()

        def load(parts: list[np.ndarray]) -> None:
            for variable, part in zip(variables, parts, strict=True):
                variable.assign(part)

        def run() -> None:
            nonlocal received
            received = call()
            # On CPUs a compiled function returns with its results, on GPUs earlier.
            if "GPU" in variables[0].device:
                tf.test.experimental.sync_devices()

        def results() -> list[np.ndarray | None]:
            # Other devices get None where only the first device has a result.
            return [*(tensor.numpy() for tensor in received), *[None] * (len(variables) - len(received))]

        return Operation(load, run, results)

    def broadcast(self, buffer: tf.Variable) -> Sequence[tf.Tensor]:
        """The copies of the first device's elements, on every device."""
        first, *_ = self.strategy.experimental_local_results(buffer)
        copies = tf.distribute.ReductionToOneDevice().broadcast(first.read_value(), destinations=buffer)
        return self.strategy.experimental_local_results(copies)

    def gather(self, buffer: tf.Variable) -> Sequence[tf.Tensor]:
        """The elements of all devices, on the first device."""
        with tf.device(self.strategy.extended.worker_devices[0]):
            return [self.strategy.gather(self.strategy.run(buffer.read_value), axis=0)]

    def all_gather(self, buffer: tf.Variable) -> Sequence[tf.Tensor]:
        """The elements of all devices, on every device."""

        def gather_here() -> tf.Tensor:
            return tf.distribute.get_replica_context().all_gather(buffer.read_value(), axis=0)

        return self.strategy.experimental_local_results(self.strategy.run(gather_here))

    def reduce(self, buffer: tf.Variable) -> Sequence[tf.Tensor]:
        """The sums, on the first device."""
        values, first = self.strategy.run(buffer.read_value), self.strategy.extended.worker_devices[0]
        return [self.strategy.extended.reduce_to(tf.distribute.ReduceOp.SUM, values, destinations=first)]

    def all_reduce(self, buffer: tf.Variable) -> Sequence[tf.Tensor]:
        """The sums, on every device: the call with which a training step sums gradients."""
        values = self.strategy.run(buffer.read_value)
        [sums] = self.strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, [(values, buffer)])
        return self.strategy.experimental_local_results(sums)


if __name__ == "__main__":
    exit_with_one_line(main)
