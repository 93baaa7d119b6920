"""Keras `compile` and `fit` under MirroredStrategy: what most TensorFlow users write, one replica per device.

Without GPUs the devices are logical devices of the CPU. After every step `fit` turns the loss into a Python number for
its callbacks. So every step waits for the devices, which a hand-written loop avoids.

To start it: `python tf_impl/keras_mirrored.py --workers 4 --preset digits`.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("tensorflow")
    os.environ["KERAS_BACKEND"] = "tensorflow"  # The user may have chosen another backend.

import tensorflow as tf

from common.declarations.arguments import parse_command_line
from common.measurement.run import Run
from tf_impl import fit, model
from tf_impl.devices import cross_device_ops, world_of
from tf_impl.strategies import KERAS_MIRRORED


def main() -> None:
    """Train the model on `--workers` replicas in this process with Keras, as the command line says."""
    task, options = parse_command_line(KERAS_MIRRORED, __doc__)
    devices = model.choose_devices(task, replicas=task.workers or 1)
    across_devices = cross_device_ops(devices)
    world = world_of(devices, task, type(across_devices).__name__)
    _train(Run(KERAS_MIRRORED, task, options, world), devices, across_devices)


def _train(run: Run, devices: list[str], across_devices: tf.distribute.CrossDeviceOps) -> None:
    task, options = run.task, run.options
    # The line that makes it distributed: what is created in its scope has a copy on every device, and it sums the
    # replicas' gradients in Keras's `fit`.
    strategy = tf.distribute.MirroredStrategy(devices, across_devices if options.exchange else ExchangeOff())
    with strategy.scope():
        network = fit.create_model(task, run.initial_state, run.first_step, options.jit_compile)
    variables = model.Variables(*fit.variables_of(network))
    run.export_with(
        lambda: fit.export_state(task, network),
        lambda: model.held_bytes(variables, strategy),
        lambda: model.export_replicas(task, variables),
    )

    # `fit` slices every batch among the replicas.
    network.fit(fit.create_batches(task, run), epochs=1, shuffle=False, verbose=0, callbacks=[fit.Clock(run)])
    run.finish(examples=fit.count_examples(network))


class ExchangeOff(tf.distribute.ReductionToOneDevice):
    """Returns every replica's own gradients in place of their sum."""

    def batch_reduce_implementation(self, reduce_op: object, value_destination_pairs: list, options: object) -> list:
        """The values as they are, unreduced."""
        return [value for value, _ in value_destination_pairs]


if __name__ == "__main__":
    exit_with_one_line(main)
