"""OneDeviceStrategy: the whole program of a tf.distribute strategy on a single device, which distributes nothing.

It is the base that every speed-up of TensorFlow's strategies is measured against.

To start it: `python tf_impl/one_device.py --preset digits`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("tensorflow")

import tensorflow as tf

from common import machine, mlp
from common.config import check_world_size, parse_command_line
from common.run import Run
from tf_impl import model as contract


def main() -> None:
    """Train the MLP on one device, as the command line says."""
    config = parse_command_line(__doc__)
    check_world_size(config, 1, "tf_one_device")
    placement = machine.pin(config)
    devices = contract.choose_devices(config, replicas=1)
    strategy = tf.distribute.OneDeviceStrategy(devices[0])

    run = Run(
        config,
        strategy="tf_one_device",
        framework="tensorflow",
        placement=placement,
        device=contract.device_name(devices),
        synchronize=tf.test.experimental.sync_devices,
    )
    with strategy.scope():
        variables = contract.create_variables(config, run.initial_state)
        # The rows stay on the device, and each step names its own: feeding them would cost as much as a small step.
        train_features = tf.constant(run.dataset.train_features)
        train_labels = tf.constant(run.dataset.train_labels)

    def forward_backward(rows: tf.Tensor) -> tuple:
        features, labels = tf.gather(train_features, rows), tf.gather(train_labels, rows)
        return contract.loss_and_gradients(config, variables, features, labels, run.global_batch)

    @tf.function(autograph=False)
    def train_step(rows: tf.Tensor, learning_rate: tf.Tensor) -> tf.Tensor:
        loss, gradients = strategy.run(forward_backward, args=(rows,))
        contract.apply_sgd(config, variables, gradients, learning_rate, strategy)
        return loss

    for batch in run.steps():
        learning_rate = mlp.learning_rate(config, batch.step)
        run.observe(train_step(tf.constant(batch.rows), tf.constant(learning_rate, tf.float32)))
        if run.checkpoint_due:
            run.checkpoint(contract.export_state(config, variables))
    run.finish(contract.export_state(config, variables))


if __name__ == "__main__":
    exit_with_one_line(main)
