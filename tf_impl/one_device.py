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

from common import machine
from common.config import check_world_size, parse_command_line
from common.run import Run
from tf_impl import inputs
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
    take = inputs.prepare(run, strategy)

    def forward_backward(features: tf.Tensor, labels: tf.Tensor) -> tuple:
        return contract.loss_and_gradients(config, variables, features, labels, run.global_batch)

    def train_step(rows: tf.Tensor, learning_rate: tf.Tensor) -> tf.Tensor:
        features, labels = take(rows)
        loss, gradients = strategy.run(forward_backward, args=(features, labels))
        contract.apply_sgd(config, variables, gradients, learning_rate, strategy)
        return loss

    train_steps = contract.compile_steps(config, train_step)
    for batches in run.calls():
        run.observe(train_steps(batches), steps=len(batches))
        if run.checkpoint_due:
            run.checkpoint(contract.export_state(config, variables))
    run.finish(contract.export_state(config, variables), contract.held_bytes(variables, strategy))


if __name__ == "__main__":
    exit_with_one_line(main)
