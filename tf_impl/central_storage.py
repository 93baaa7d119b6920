"""CentralStorageStrategy: one process, one replica per device; the only copy of the variables is in the host's memory.

In each step every replica reads the weights from the host, and the sums of all gradients are applied there, once.
Without GPUs the replicas' devices are logical devices of the CPU.

To start it: `python tf_impl/central_storage.py --workers 4 --preset digits`.
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
from tf_impl.devices import world_of
from tf_impl.strategies import CENTRAL_STORAGE

HOST = "/cpu:0"


def main() -> None:
    """Train the model on `--workers` replicas in this process, as the command line says."""
    task, options = parse_command_line(CENTRAL_STORAGE, __doc__)
    devices = model.choose_devices(task, replicas=task.workers or 1)
    world = world_of(devices, task, "ReductionToOneDevice")
    # By default the strategy would put the variables of a single replica on that replica's GPU.
    strategy = tf.distribute.experimental.CentralStorageStrategy(compute_devices=devices, parameter_device=HOST)
    _train(Run(CENTRAL_STORAGE, task, options, world), strategy)


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
            # The line that makes it distributed: every replica's gradients are summed where the variables are.
            gradients = strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, pairs)
        else:
            gradients = _first_replicas(strategy, gradients)
        model.apply_sgd(task, variables, gradients, learning_rate, strategy)
        return model.shard_losses(strategy, losses), model.count_rows(strategy, labels)

    train_steps = model.compile_steps(task, options.steps_per_call, train_step)
    run.export_with(lambda: model.export_state(task, variables), lambda: model.held_bytes(variables, strategy))

    for batches in run.grouped_steps(options.steps_per_call):
        run.observe(*train_steps(batches), steps=len(batches))
    run.finish()


def _first_replicas(strategy: tf.distribute.Strategy, gradients: list) -> list[tf.Tensor]:
    """The first replica's gradients, once every replica has computed its own.

    With gradient exchange off the one copy of the variables can take only one replica's gradients. Without the wait
    TensorFlow would leave out the other replicas' backward passes, since nothing uses them.
    """
    of_replicas = [strategy.experimental_local_results(gradient) for gradient in gradients]
    with tf.control_dependencies(tf.nest.flatten(of_replicas)):
        return [tf.identity(of_one[0]) for of_one in of_replicas]


if __name__ == "__main__":
    exit_with_one_line(main)
