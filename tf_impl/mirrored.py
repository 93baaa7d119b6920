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

from common import machine, mlp
from common.config import Config, parse_command_line
from common.run import Run
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
    # The rows stay on the devices, and each step names its own: feeding them would cost as much as a small step.
    train_set = strategy.experimental_distribute_values_from_function(
        lambda context: (tf.constant(run.dataset.train_features), tf.constant(run.dataset.train_labels))
    )

    def forward_backward(rows: tf.Tensor, train_features: tf.Tensor, train_labels: tf.Tensor) -> tuple:
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        own_rows = tf.reshape(rows, (strategy.num_replicas_in_sync, -1))[replica]
        features, labels = tf.gather(train_features, own_rows), tf.gather(train_labels, own_rows)
        return contract.loss_and_gradients(config, variables, features, labels, run.global_batch)

    @tf.function(autograph=False)
    def train_step(rows: tf.Tensor, learning_rate: tf.Tensor) -> tf.Tensor:
        losses, gradients = strategy.run(forward_backward, args=(rows, *train_set))
        if config.exchange:
            # The line that makes it distributed: every replica's gradients are summed, and each replica gets the sums.
            destinations = list(zip(gradients, variables.parameters, strict=True))
            gradients = strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, destinations)
        contract.apply_sgd(config, variables, gradients, learning_rate, strategy)
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    for batch in run.steps():
        learning_rate = mlp.learning_rate(config, batch.step)
        run.observe(train_step(tf.constant(batch.rows), tf.constant(learning_rate, tf.float32)))
        if run.checkpoint_due:
            run.checkpoint(contract.export_state(config, variables))
    run.finish(contract.export_state(config, variables))


if __name__ == "__main__":
    exit_with_one_line(main)
