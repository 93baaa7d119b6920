"""ParameterServerStrategy: servers hold the variables, workers pull them and push gradients, a coordinator deals steps.

Asynchronous as TensorFlow intends it: an update is applied as it comes, to weights that others may have changed since
it read them. Each update measures how many did: its staleness. With `--updates synchronous` the same processes wait
for all workers' gradients in every step, and follow the oracle.

Without a cluster in TF_CONFIG this program starts all of its processes itself: one coordinator, `--workers` and
`--parameter-servers`.

To start it: `python tf_impl/parameter_server.py --workers 4 --preset digits`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common import cluster
from common.errors import exit_with_one_line, require_framework

if __name__ == "__main__":
    require_framework("tensorflow")
    # Before TensorFlow is loaded: the process that only starts the others needs none.
    exit_with_one_line(lambda: cluster.start_unless_given("tf_parameter_server", __doc__))

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from common import machine, mlp
from common.config import is_synchronous, parse_command_line
from common.run import Run
from tf_impl import model as contract
from tf_impl import world

Coordinator = tf.distribute.coordinator.ClusterCoordinator


def main() -> None:
    """Train the MLP as the coordinator, or serve as the worker or parameter server that TF_CONFIG names."""
    config = parse_command_line(__doc__)
    place = world.find_cluster(("chief", "worker", "ps"))
    world.check_servers(config, place)
    if place.job != "chief":
        world.serve(config, place)
        return
    # A machine with fewer cores than workers and servers is overloaded; the coordinator itself mostly waits.
    placement = machine.unpinned(config, len(place.neighbours("worker", "ps")))
    tf.config.set_visible_devices([], "GPU")
    cluster.meet(place, config.deadline_seconds)
    with world.one_line_when_it_breaks():
        workers, servers = len(place.addresses["worker"]), len(place.addresses["ps"])
        partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(max_shards=servers)
        strategy = tf.distribute.ParameterServerStrategy(world.resolver(place), partitioner)
        coordinator = Coordinator(strategy)
        run = Run(
            config,
            strategy="tf_parameter_server",
            framework="tensorflow",
            placement=placement,
            world_size=workers,
            replicas=workers,
            backend="gRPC",
            synchronous=is_synchronous(config, "tf_parameter_server"),
            synchronize=coordinator.join,
        )
        train = _train_synchronously if is_synchronous(config, "tf_parameter_server") else _train_asynchronously
        train(run, coordinator, _build(run, coordinator))


@dataclass(frozen=True)
class Program:
    """What both ways of updating are made of."""

    variables: contract.Variables
    number: tf.Variable
    """Of each worker, drawn when it starts: a new one says that the worker was lost and came back."""
    first_numbers: list[float]
    pull: Callable[[tf.Tensor], tuple[tf.Tensor, list[tf.Tensor]]]
    """Reads the weights and gives the loss and the gradients of these rows."""
    push: Callable[[Sequence[tf.Tensor], tf.Tensor], list[tf.Operation]]
    """Applies gradients, with this learning rate, where the variables are."""


def _build(run: Run, coordinator: Coordinator) -> Program:
    config, strategy = run.config, coordinator.strategy
    with strategy.scope():
        # Without exchange every worker has weights of its own, so that nothing is pulled and nothing pushed.
        variables = contract.create_variables(config, run.initial_state, per_worker_variable=not config.exchange)
        # The rows stay on the workers, and each step names its own.
        train_features = tf.Variable(run.dataset.train_features, per_worker_variable=True)
        train_labels = tf.Variable(run.dataset.train_labels, per_worker_variable=True)

    def pull(rows: tf.Tensor) -> tuple:
        weights = contract.Variables([tf.convert_to_tensor(parameter) for parameter in variables.parameters], [])
        features, labels = tf.gather(train_features, rows), tf.gather(train_labels, rows)
        return contract.loss_and_gradients(config, weights, features, labels, run.global_batch)

    def push(gradients: Sequence[tf.Tensor], learning_rate: tf.Tensor) -> list[tf.Operation]:
        return contract.apply_sgd(config, *world.by_shard(variables, gradients), learning_rate, strategy)

    return Program(variables, *world.number_workers(coordinator), pull, push)


def _train_asynchronously(run: Run, coordinator: Coordinator, program: Program) -> None:
    # The server of the first layer, whose gradient comes last, counts the updates. It reads the count with the weights
    # and raises it with the update, so that measuring staleness costs no message of its own. It also keeps what each
    # update tells: results that the coordinator holds on to took a quarter of the speed.
    first_layer, strategy = world.shards(program.variables.parameters[0])[0], coordinator.strategy
    with strategy.scope(), ExitStack() as place:
        # Without exchange the first layer is on every worker, and any server will do.
        if run.config.exchange:
            place.enter_context(strategy.extended.colocate_vars_with(first_layer))
        updates = tf.Variable(0.0)
        told = tf.Variable(tf.zeros((run.config.steps, 3)))

    @tf.function(autograph=False)
    def update(step: tf.Tensor, rows: tf.Tensor, learning_rate: tf.Tensor) -> None:
        with tf.device(updates.device):
            updates_before = tf.identity(updates)
        loss, gradients = program.pull(rows)
        message = tf.stack([step, loss, program.number])
        applied = program.push(gradients, learning_rate)
        with tf.device(updates.device), tf.control_dependencies(applied[:1]):
            staleness = updates.assign_add(1.0).read_value() - 1.0 - updates_before
            told.scatter_nd_update([[tf.cast(message[0], tf.int32)]], [[message[1], staleness, message[2]]])

    for batch in run.steps():
        learning_rate = tf.constant(mlp.learning_rate(run.config, batch.step), tf.float32)
        # The line that makes it distributed: whichever worker is free takes the step, and nobody waits for it.
        coordinator.schedule(update, (tf.constant(batch.step, tf.float32), tf.constant(batch.rows), learning_rate))
        run.observe(world.Element(told, (batch.step, 0)))
        if run.checkpoint_due:
            run.checkpoint(contract.export_state(run.config, program.variables))
    _, staleness, numbers = told[run.first_step :].numpy().T
    run.finish(
        contract.export_state(run.config, program.variables),
        staleness=staleness.astype(int).tolist(),
        restarted_workers=len(set(numbers) - set(program.first_numbers)),
    )


def _train_synchronously(run: Run, coordinator: Coordinator, program: Program) -> None:
    @tf.function(autograph=False)
    def compute(rows: tf.Tensor, learning_rate: tf.Tensor) -> tuple:
        loss, gradients = program.pull(rows)
        if not run.config.exchange:
            program.push(gradients, learning_rate)
        return loss, gradients if run.config.exchange else [], tf.identity(program.number)

    @tf.function(autograph=False)
    def push_sums(gradients_of_workers: Sequence, learning_rate: tf.Tensor) -> None:
        program.push([tf.add_n(parts) for parts in zip(*gradients_of_workers, strict=True)], learning_rate)

    seen = set()
    for batch in run.steps():
        learning_rate = tf.constant(mlp.learning_rate(run.config, batch.step), tf.float32)
        shards = np.split(batch.rows, run.world_size)
        # The line that makes it distributed: every worker computes a part, and the coordinator waits for all of them.
        parts = coordinator.fetch(
            [coordinator.schedule(compute, (tf.constant(rows), learning_rate)) for rows in shards]
        )
        losses, gradients, numbers = zip(*parts, strict=True)
        seen.update(map(float, numbers))
        if run.config.exchange:
            with coordinator.strategy.scope():
                push_sums(gradients, learning_rate)
        run.observe(sum(losses))
        if run.checkpoint_due:
            run.checkpoint(contract.export_state(run.config, program.variables))
    run.finish(
        contract.export_state(run.config, program.variables),
        restarted_workers=len(seen - set(program.first_numbers)),
    )


if __name__ == "__main__":
    exit_with_one_line(main)
