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

from common.errors import exit_with_one_line, require_framework
from tf_impl import cluster
from tf_impl.strategies import PARAMETER_SERVER

if __name__ == "__main__":
    require_framework("tensorflow")
    # Before TensorFlow is loaded: the process that only starts the others needs none.
    exit_with_one_line(lambda: cluster.start_unless_given(PARAMETER_SERVER, __doc__))

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from common.contract.mlp import learning_rate
from common.declarations.arguments import parse_command_line
from common.measurement import machine
from common.measurement.run import Run
from common.measurement.world import World
from tf_impl import mlp, world

Coordinator = tf.distribute.coordinator.ClusterCoordinator


def main() -> None:
    """Train the MLP as the coordinator, or serve as the worker or parameter server that TF_CONFIG names."""
    task, options = parse_command_line(PARAMETER_SERVER, __doc__)
    place = world.find_cluster(("chief", "worker", "ps"))
    world.check_servers(task, options, place)
    if place.job != "chief":
        world.serve(task, place)
        return
    # The coordinator isn't pinned, and a machine with fewer cores than it, workers and servers have threads is crowded.
    placement = machine.unpinned(task, len(place.neighbours("worker", "ps", "chief")))
    tf.config.set_visible_devices([], "GPU")
    cluster.meet(place, task.deadline_seconds)
    with world.one_line_when_it_breaks():
        workers, servers = len(place.addresses["worker"]), len(place.addresses["ps"])
        partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(max_shards=servers)
        strategy = tf.distribute.ParameterServerStrategy(world.resolver(place), partitioner)
        coordinator = Coordinator(strategy)
        workers_and_servers = World(placement=placement, size=workers, backend="gRPC", synchronize=coordinator.join)
        _train(Run(PARAMETER_SERVER, task, options, workers_and_servers), coordinator)


def _train(run: Run, coordinator: Coordinator) -> None:
    train = _train_synchronously if run.options.updates == "synchronous" else _train_asynchronously
    train(run, coordinator, _build(run, coordinator))


@dataclass(frozen=True)
class Program:
    """What both ways of updating are made of."""

    variables: mlp.Variables
    number: tf.Variable
    """Of each worker, drawn when it starts: a new one says that the worker was lost and came back."""
    first_numbers: list[float]
    pull: Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]]
    """Reads the weights and gives the loss of these rows, their count, and the gradients."""
    push: Callable[[Sequence[tf.Tensor], tf.Tensor], list[tf.Operation]]
    """Applies gradients, with this learning rate, where the variables are."""


def _build(run: Run, coordinator: Coordinator) -> Program:
    task, strategy = run.task, coordinator.strategy
    with strategy.scope():
        # Without exchange every worker has weights of its own, so that nothing is pulled and nothing pushed.
        variables = mlp.create_variables(task, run.initial_state, per_worker_variable=not run.options.exchange)
        # The rows stay on the workers, and each step names its own.
        train_features = tf.Variable(run.dataset.train_features, per_worker_variable=True)
        train_labels = tf.Variable(run.dataset.train_labels, per_worker_variable=True)

    def pull(rows: tf.Tensor) -> tuple:
        weights = mlp.Variables([tf.convert_to_tensor(parameter) for parameter in variables.parameters], [])
        features, labels = tf.gather(train_features, rows), tf.gather(train_labels, rows)
        loss, gradients = mlp.loss_and_gradients(task, weights, features, labels, run.global_batch)
        return loss, tf.size(labels), gradients

    def push(gradients: Sequence[tf.Tensor], rate: tf.Tensor) -> list[tf.Operation]:
        return mlp.apply_sgd(task, *world.by_shard(variables, gradients), rate, strategy)

    run.export_with(lambda: mlp.export_state(task, variables))
    return Program(variables, *world.number_workers(coordinator), pull, push)


def _train_asynchronously(run: Run, coordinator: Coordinator, program: Program) -> None:
    # The server of the first layer, whose gradient comes last, counts the updates. It reads the count with the weights
    # and raises it with the update, so that measuring staleness costs no message of its own. It also keeps what each
    # update tells: results that the coordinator holds on to took a quarter of the speed.
    first_layer, strategy = world.shards(program.variables.parameters[0])[0], coordinator.strategy
    with strategy.scope(), ExitStack() as place:
        # Without exchange the first layer is on every worker, and any server will do.
        if run.options.exchange:
            place.enter_context(strategy.extended.colocate_vars_with(first_layer))
        updates = tf.Variable(0.0)
        told = tf.Variable(tf.zeros((run.task.steps, 4)))

    @tf.function(autograph=False)
    def update(step: tf.Tensor, rows: tf.Tensor, rate: tf.Tensor) -> None:
        with tf.device(updates.device):
            updates_before = tf.identity(updates)
        loss, count, gradients = program.pull(rows)
        message = tf.stack([step, loss, program.number, tf.cast(count, tf.float32)])
        applied = program.push(gradients, rate)
        with tf.device(updates.device), tf.control_dependencies(applied[:1]):
            staleness = updates.assign_add(1.0).read_value() - 1.0 - updates_before
            told.scatter_nd_update([[tf.cast(message[0], tf.int32)]], [[message[1], staleness, message[2], message[3]]])

    for batch in run.steps():
        rate = tf.constant(learning_rate(run.task, batch.step), tf.float32)
        # The line that makes it distributed: whichever worker is free takes the step, and nobody waits for it.
        coordinator.schedule(update, (tf.constant(batch.step, tf.float32), tf.constant(batch.rows), rate))
        run.observe(world.Element(told, (batch.step, 0)))
    _, staleness, numbers, counts = told[run.first_step :].numpy().T
    run.finish(
        examples=int(counts.sum(dtype=int)),
        staleness=staleness.astype(int).tolist(),
        restarted_workers=len(set(numbers) - set(program.first_numbers)),
    )


def _train_synchronously(run: Run, coordinator: Coordinator, program: Program) -> None:
    @tf.function(autograph=False)
    def compute(rows: tf.Tensor, rate: tf.Tensor) -> tuple:
        loss, count, gradients = program.pull(rows)
        if not run.options.exchange:
            program.push(gradients, rate)
        return loss, count, gradients if run.options.exchange else [], tf.identity(program.number)

    @tf.function(autograph=False)
    def push_sums(gradients_of_workers: Sequence, rate: tf.Tensor) -> None:
        program.push([tf.add_n(parts) for parts in zip(*gradients_of_workers, strict=True)], rate)

    seen = set()
    for batch in run.steps():
        rate = tf.constant(learning_rate(run.task, batch.step), tf.float32)
        shards = np.split(batch.rows, run.world.size)
        # The line that makes it distributed: every worker computes a part, and the coordinator waits for all of them.
        parts = [coordinator.schedule(compute, (tf.constant(rows), rate)) for rows in shards]
        # A part that is ready isn't here yet. When its worker dies now, TensorFlow computes the part again, but a fetch
        # that was copying it fails. After join every part is here, and fetch copies nothing (TensorFlow 2.21,
        # distribute/coordinator: Worker._process_closure in cluster_coordinator.py, RemoteValueImpl.get in values.py).
        coordinator.join()
        losses, counts, gradients, numbers = zip(*coordinator.fetch(parts), strict=True)
        seen.update(map(float, numbers))
        if run.options.exchange:
            with coordinator.strategy.scope():
                push_sums(gradients, rate)
        # What each worker computed is its part of the mean over the global batch.
        run.observe([run.world.size * loss for loss in losses], rows=sum(map(int, counts)))
    run.finish(restarted_workers=len(seen - set(program.first_numbers)))


if __name__ == "__main__":
    exit_with_one_line(main)
