"""CentralStorageStrategy: one process, one replica per device; the only copy of the variables is in the host's memory.

Every replica reads the weights from there in each step, and the sums of all gradients are applied there, once. Without
GPUs the replicas' devices are logical CPUs of the one that there is.

To start it: `python tf_impl/central_storage.py --workers 4 --preset digits`.
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

HOST = "/cpu:0"


def main() -> None:
    """Train the MLP on `--workers` replicas in this process, as the command line says."""
    config = parse_command_line(__doc__)
    replicas = config.workers or 1
    placement = machine.pin(config, local_world_size=replicas, replicas=replicas)
    devices = contract.choose_devices(config, replicas)
    # Left to itself, the strategy would put the variables of a single replica on that replica's GPU.
    strategy = tf.distribute.experimental.CentralStorageStrategy(compute_devices=devices, parameter_device=HOST)

    run = Run(
        config,
        strategy="tf_central_storage",
        framework="tensorflow",
        placement=placement,
        world_size=replicas,
        replicas=replicas,
        backend="ReductionToOneDevice",
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
            # The line that makes it distributed: every replica's gradients are summed where the variables are.
            destinations = list(zip(gradients, variables.parameters, strict=True))
            gradients = strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, destinations)
        else:
            gradients = _first_replicas(strategy, gradients)
        contract.apply_sgd(config, variables, gradients, learning_rate, strategy)
        return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)

    train_steps = contract.compile_steps(config, train_step)
    for batches in run.calls():
        run.observe(train_steps(batches), steps=len(batches))
        if run.checkpoint_due:
            run.checkpoint(contract.export_state(config, variables))
    run.finish(contract.export_state(config, variables), contract.held_bytes(variables, strategy))


def _first_replicas(strategy: tf.distribute.Strategy, gradients: list) -> list[tf.Tensor]:
    """The first replica's gradients, once every replica has computed its own.

    With `--no-exchange` the variables, of which there is one copy, can take only one replica's gradients. Without the
    wait TensorFlow would leave out the other replicas' backward passes, since nothing uses them.
    """
    of_replicas = [strategy.experimental_local_results(gradient) for gradient in gradients]
    with tf.control_dependencies(tf.nest.flatten(of_replicas)):
        return [tf.identity(of_one[0]) for of_one in of_replicas]


if __name__ == "__main__":
    exit_with_one_line(main)
