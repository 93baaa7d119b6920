"""MirroredStrategy: one process, one replica per device; variables are mirrored, gradients are summed across devices.

Without GPUs the devices are logical CPUs of the one that there is.

To start it: `python tf_impl/mirrored.py --workers 4 --preset digits`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("tensorflow")

import tensorflow as tf

from common import machine
from common.config import Config, parse_command_line
from common.run import Run
from tf_impl import inputs
from tf_impl import model as contract


def main() -> None:
    """Train the MLP on `--workers` replicas in this process, as the command line says."""
    config = parse_command_line(__doc__)
    replicas = config.workers or 1
    placement = machine.pin(config, local_world_size=replicas, replicas=replicas)
    devices = contract.choose_devices(config, replicas)
    # NCCL is TensorFlow's choice for GPUs. For CPUs it chooses collectives, which are slower than one device's sum.
    on_gpus = devices[0].startswith("/gpu")
    across_devices = tf.distribute.NcclAllReduce() if on_gpus else tf.distribute.ReductionToOneDevice()
    strategy = tf.distribute.MirroredStrategy(devices, cross_device_ops=across_devices)

    run = Run(
        config,
        strategy="tf_mirrored",
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
        variables = contract.create_variables(config, run.initial_state)
    take = inputs.prepare(run, strategy)

    def forward_backward(features: tf.Tensor, labels: tf.Tensor) -> tuple:
        return contract.loss_and_gradients(config, variables, features, labels, run.global_batch)

    def train_step(rows: tf.Tensor, learning_rate: tf.Tensor) -> tf.Tensor:
        features, labels = take(rows)
        losses, gradients = strategy.run(forward_backward, args=(features, labels))
        if config.exchange:
            # The line that makes it distributed: every replica's gradients are summed, and each replica gets the sums.
            destinations = list(zip(gradients, variables.parameters, strict=True))
            gradients = strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, destinations)
        contract.apply_sgd(config, variables, gradients, learning_rate, strategy)
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    train_steps = contract.compile_steps(config, train_step)
    for batches in run.calls():
        losses = train_steps(batches)
        if config.check_replicas:
            # Of the steps in one call only what the last one left can be seen.
            run.check_replicas(*contract.export_replicas(config, variables), steps=len(batches))
        run.observe(losses, steps=len(batches))
        if run.checkpoint_due:
            run.checkpoint(contract.export_state(config, variables))
    run.finish(contract.export_state(config, variables), contract.held_bytes(variables, strategy))


if __name__ == "__main__":
    exit_with_one_line(main)
