"""OneDeviceStrategy: the whole program of a tf.distribute strategy on a single device, which distributes nothing.

It is the baseline of every speed-up of TensorFlow's strategies.

To start it: `python tf_impl/one_device.py --preset digits`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("tensorflow")

import tensorflow as tf

from common.declarations.arguments import check_world_size, parse_command_line
from common.measurement.run import Run
from tf_impl import inputs, model
from tf_impl.devices import world_of
from tf_impl.strategies import ONE_DEVICE


def main() -> None:
    """Train the model on one device, as the command line says."""
    task, options = parse_command_line(ONE_DEVICE, __doc__)
    check_world_size(task, 1, ONE_DEVICE.name)
    devices = model.choose_devices(task, replicas=1)
    world = world_of(devices, task, backend="none")
    _train(Run(ONE_DEVICE, task, options, world), tf.distribute.OneDeviceStrategy(devices[0]))


def _train(run: Run, strategy: tf.distribute.Strategy) -> None:
    task, options = run.task, run.options
    with strategy.scope():
        variables = model.create_variables(task, run.initial_state)
    load = inputs.loader(run, strategy)

    def forward_backward(features: tf.Tensor, labels: tf.Tensor) -> tuple:
        return model.loss_and_gradients(task, variables, features, labels, run.global_batch, options.jit_compile)

    def train_step(rows: tf.Tensor, learning_rate: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        features, labels = load(rows)
        loss, gradients = strategy.run(forward_backward, args=(features, labels))
        model.apply_sgd(task, variables, gradients, learning_rate, strategy)
        return loss, model.count_rows(strategy, labels)

    train_steps = model.compile_steps(task, options.steps_per_call, train_step)
    run.export_with(lambda: model.export_state(task, variables), lambda: model.held_bytes(variables, strategy))

    for batches in run.grouped_steps(options.steps_per_call):
        run.observe(*train_steps(batches), steps=len(batches))
    run.finish()


if __name__ == "__main__":
    exit_with_one_line(main)
