"""Keras `compile` and `fit` under MirroredStrategy: what most TensorFlow users write, one replica per device.

Without GPUs the devices are logical CPUs of the one that there is. `fit` turns the loss into a Python number after
every step, for its callbacks, so here, other than in a loop of one's own, every step waits for the devices.

To start it: `python tf_impl/keras_mirrored.py --workers 4 --preset digits`.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import UserError, exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("tensorflow")
    os.environ["KERAS_BACKEND"] = "tensorflow"  # Keras may have been set to another one.

import tensorflow as tf

from common import machine
from common.config import Config, parse_command_line
from common.run import Run
from tf_impl import fit
from tf_impl import model as contract


def main() -> None:
    """Train the MLP on `--workers` replicas in this process with Keras, as the command line says."""
    config = parse_command_line(__doc__)
    replicas = config.workers or 1
    refuse_one_program_for_all(config, replicas)
    placement = machine.pin(config, local_world_size=replicas, replicas=replicas)
    devices = contract.choose_devices(config, replicas)
    # NCCL is TensorFlow's choice for GPUs. For CPUs it chooses collectives, which are slower than one device's sum.
    on_gpus = devices[0].startswith("/gpu")
    across_devices = tf.distribute.NcclAllReduce() if on_gpus else tf.distribute.ReductionToOneDevice()
    strategy = tf.distribute.MirroredStrategy(devices, across_devices if config.exchange else WithoutExchange())

    run = Run(
        config,
        strategy="tf_keras_mirrored",
        framework="tensorflow",
        placement=placement,
        world_size=replicas,
        replicas=replicas,
        backend=type(across_devices).__name__,
        device=contract.device_name(devices),
        synchronize=tf.test.experimental.sync_devices,
    )
    _train(config, run, strategy)


def _train(config: Config, run: Run, strategy: tf.distribute.Strategy) -> None:
    with strategy.scope():
        model = fit.create_model(config, run.initial_state, run.first_step)
    variables = contract.Variables(*fit.variables_of(model))

    clock = fit.Clock(config, run, lambda: contract.export_replicas(config, variables))
    # `fit` deals every batch out to the replicas, in slices.
    model.fit(fit.create_batches(config, run), epochs=1, shuffle=False, verbose=0, callbacks=[clock])
    held = contract.held_bytes(variables, strategy)
    run.finish(fit.export_state(config, model), held, examples_by_rank=[fit.count_examples(model)])


class WithoutExchange(tf.distribute.ReductionToOneDevice):
    """Hands every replica its own gradients back where their sum was asked for."""

    def batch_reduce_implementation(self, reduce_op: object, value_destination_pairs: list, options: object) -> list:
        """The values as they are."""
        return [value for value, _ in value_destination_pairs]


def refuse_one_program_for_all(config: Config, replicas: int) -> None:
    """Raises UserError where Keras would have XLA compile several replicas."""
    if config.jit_compile and replicas > 1:
        # https://www.tensorflow.org/xla/known_issues, "tf.Variable on a different device".
        raise UserError(
            "Keras compiles the step of all replicas into one XLA program, which can't have variables on several "
            "devices: leave --jit-compile out, start one worker, or use tf_mirrored."
        )


if __name__ == "__main__":
    exit_with_one_line(main)
