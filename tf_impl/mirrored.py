"""MirroredStrategy: one process, one replica per device; variables are mirrored, gradients are summed across devices.

Without GPUs the devices are logical devices of the CPU.

To start it: `python tf_impl/mirrored.py --workers 4 --preset digits`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("tensorflow")

import tensorflow as tf

from common.declarations.arguments import parse_command_line
from common.measurement.run import Run
from tf_impl import inputs, model
from tf_impl.devices import cross_device_ops, world_of
from tf_impl.strategies import MIRRORED


def main() -> None:
    """Train the model on `--workers` replicas in this process, as the command line says."""
    task, options = parse_command_line(MIRRORED, __doc__)
    devices = model.choose_devices(task, replicas=task.workers or 1)
    across_devices = cross_device_ops(devices)
    world = world_of(devices, task, type(across_devices).__name__)
    _train(Run(MIRRORED, task, options, world), tf.distribute.MirroredStrategy(devices, across_devices))


def _train(run: Run, strategy: tf.distribute.Strategy) -> None:
    task, options = run.task, run.options
    with strategy.scope():
        variables = model.create_variables(task, run.initial_state)
    load = inputs.loader(run, strategy)

    def forward_backward(features: tf.Tensor, labels: tf.Tensor) -> tuple:
        return model.loss_and_gradients(task, variables, features, labels, run.global_batch, options.jit_compile)

    def train_step(rows: tf.Tensor, learning_rate: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        features, labels = load(rows)
        losses, gradients = strategy.run(forward_backward, args=(features, labels))
        if options.exchange:
            pairs = list(zip(gradients, variables.parameters, strict=True))
            # The line that makes it distributed: every replica's gradients are summed, and each replica gets the sums.
            # Without it each replica's copy of the variables takes that replica's gradients.
            gradients = strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, pairs)
        model.apply_sgd(task, variables, gradients, learning_rate, strategy)
        return model.shard_losses(strategy, losses), model.count_rows(strategy, labels)

    train_steps = model.compile_steps(task, options.steps_per_call, train_step)
    run.export_with(
        lambda: model.export_state(task, variables),
        lambda: model.held_bytes(variables, strategy),
        lambda: model.export_replicas(task, variables),
    )

    for batches in run.grouped_steps(options.steps_per_call):
        losses, rows = train_steps(batches)
        run.observe(losses, rows, steps=len(batches))
    run.finish()


if __name__ == "__main__":
    exit_with_one_line(main)
