"""MultiWorkerMirroredStrategy: one process per worker, each with all variables; collectives sum the gradients.

The collectives are TensorFlow's ring over gRPC, on GPUs NCCL. TensorFlow has no launcher: without a cluster in
TF_CONFIG, or a step of Slurm around it, this program starts its `--workers` itself.

To start it: `python tf_impl/multi_worker_mirrored.py --workers 4 --preset digits`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common import cluster
from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("tensorflow")
    # Before TensorFlow is loaded: the process that only starts the others needs none.
    exit_with_one_line(lambda: cluster.start_unless_given("tf_multi_worker_mirrored", __doc__))

import tensorflow as tf

from common import machine
from common.config import Config, check_world_size, parse_command_line
from common.run import Run
from tf_impl import inputs, world
from tf_impl import model as contract


def main() -> None:
    """Train the MLP as one worker of the cluster that TF_CONFIG or Slurm names."""
    config = parse_command_line(__doc__)
    place = world.find_cluster(("chief", "worker"))
    workers = place.all_addresses("chief", "worker")
    check_world_size(config, len(workers), "the cluster")
    here = place.neighbours("chief", "worker")
    placement = machine.pin(config, here.index(place.address), len(here))
    devices = contract.choose_devices(config, 1, here.index(place.address), len(here))
    on_gpus = devices[0].startswith("/gpu")
    backend = "NCCL" if on_gpus else "RING"
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation[backend]
    )
    cluster.meet(place, config.deadline_seconds)
    with world.one_line_when_it_breaks():
        strategy = tf.distribute.MultiWorkerMirroredStrategy(world.resolver(place), options)
        world.check_sum(strategy, len(workers))
        run = Run(
            config,
            strategy="tf_multi_worker_mirrored",
            framework="tensorflow",
            placement=placement,
            rank=workers.index(place.address),
            world_size=len(workers),
            backend=backend,
            device=contract.device_name(devices),
            all_gather=lambda value: world.all_gather(strategy, value),
            synchronize=world.synchronize,
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
        loss, gradients = strategy.run(forward_backward, args=(features, labels))
        if config.exchange:
            # The line that makes it distributed: every worker's gradients are summed, and each worker gets the sums.
            destinations = list(zip(gradients, variables.parameters, strict=True))
            gradients = strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, destinations)
        contract.apply_sgd(config, variables, gradients, learning_rate, strategy)
        # This worker's part of the loss is a part of the sum; the record wants the mean over its own rows.
        return loss * strategy.num_replicas_in_sync

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
