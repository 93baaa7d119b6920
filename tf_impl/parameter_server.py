"""ParameterServerStrategy: servers hold the variables, workers pull them and push gradients, a coordinator deals steps.

Updates are asynchronous, as TensorFlow intends: each is applied as it comes, to weights that other updates may have
changed since it read them. The number of these other updates is its staleness, which it measures. With `--updates
synchronous` the same processes wait for all workers' gradients in every step, and follow the oracle.

Without a cluster in TF_CONFIG this program starts all of its processes itself: one coordinator, `--workers` and
`--parameter-servers`.

To start it: `python tf_impl/parameter_server.py --workers 4 --preset digits`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # A script's path begins with its own folder, not the root.

from common.errors import exit_with_one_line, require_framework
from tf_impl.cluster import meet, start_unless_given
from tf_impl.strategies import PARAMETER_SERVER

if __name__ == "__main__":
    require_framework("tensorflow")
    # TensorFlow isn't imported yet: a process that only starts the others doesn't need it.
    exit_with_one_line(lambda: start_unless_given(PARAMETER_SERVER, __doc__))

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from common.contract.model import learning_rate
from common.declarations.arguments import parse_command_line
from common.measurement import machine
from common.measurement.run import Run
from common.measurement.world import World
from tf_impl import model, world

Coordinator = tf.distribute.coordinator.ClusterCoordinator


def main() -> None:
    """Train the model as the coordinator, or serve as the worker or parameter server that TF_CONFIG names."""
    task, options = parse_command_line(PARAMETER_SERVER, __doc__)
    cluster = world.find_cluster(("chief", "worker", "ps"))
    world.check_servers(task, options, cluster)
    if cluster.job != "chief":
        world.serve(task, cluster)
        return
    # The coordinator isn't pinned. The machine is oversubscribed where coordinator, workers and servers have more
    # threads than it has cores.
    pinning = machine.unpinned(task, len(cluster.neighbours("worker", "ps", "chief")))
    tf.config.set_visible_devices([], "GPU")
    meet(cluster, task.deadline_seconds)
    with world.one_line_when_it_breaks():
        workers, servers = len(cluster.addresses["worker"]), len(cluster.addresses["ps"])
        partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(max_shards=servers)
        strategy = tf.distribute.ParameterServerStrategy(world.resolver(cluster), partitioner)
        coordinator = Coordinator(strategy)
        cluster_world = World(pinning=pinning, size=workers, backend="gRPC", synchronize=coordinator.join)
        _train(Run(PARAMETER_SERVER, task, options, cluster_world), coordinator)


def _train(run: Run, coordinator: Coordinator) -> None:
    train = _train_synchronously if run.options.updates == "synchronous" else _train_asynchronously
    train(run, coordinator, _build(run, coordinator))


@dataclass(frozen=True)
class Program:
    """The variables and functions that asynchronous and synchronous updates share."""

    variables: model.Variables
    number: tf.Variable
    """A number of each worker, drawn when the worker starts. A new number shows that the worker was restarted."""
    first_numbers: list[float]
    pull: Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]]
    """Reads the weights, and returns the loss of these rows, their count, and the gradients."""
    push: Callable[[Sequence[tf.Tensor], tf.Tensor], list[tf.Operation]]
    """Applies gradients, with this learning rate, on the variables' servers."""


def _build(run: Run, coordinator: Coordinator) -> Program:
    task, strategy = run.task, coordinator.strategy
    with strategy.scope():
        # With gradient exchange off every worker has weights of its own: nothing is pulled or pushed.
        variables = model.create_variables(task, run.initial_state, per_worker_variable=not run.options.exchange)
        # The rows stay on the workers, and each step names its own.
        train_features = tf.Variable(run.dataset.train_features, per_worker_variable=True)
        train_labels = tf.Variable(run.dataset.train_labels, per_worker_variable=True)

    def pull(rows: tf.Tensor) -> tuple:
        weights = model.Variables([tf.convert_to_tensor(parameter) for parameter in variables.parameters], [])
        features, labels = tf.gather(train_features, rows), tf.gather(train_labels, rows)
        loss, gradients = model.loss_and_gradients(task, weights, features, labels, run.global_batch)
        return loss, tf.shape(labels)[0], gradients

    def push(gradients: Sequence[tf.Tensor], rate: tf.Tensor) -> list[tf.Operation]:
        return model.apply_sgd(task, *world.by_shard(variables, gradients), rate, strategy)

    run.export_with(lambda: model.export_state(task, variables))
    return Program(variables, *world.number_workers(coordinator), pull, push)


def _train_asynchronously(run: Run, coordinator: Coordinator, program: Program) -> None:
    # The server of the first layer, whose gradient comes last, counts the updates. An update reads the count with the
    # weights and raises it with its gradients, so staleness costs no message of its own. The same server also keeps a
    # log of the updates: results held by the coordinator cost a quarter of the speed.
    first_layer, strategy = world.shards(program.variables.parameters[0])[0], coordinator.strategy
    with strategy.scope(), ExitStack() as colocation:
        # With gradient exchange off the first layer is on every worker, and any server will do.
        if run.options.exchange:
            colocation.enter_context(strategy.extended.colocate_vars_with(first_layer))
        updates = tf.Variable(0.0)
        log = tf.Variable(tf.zeros((run.task.steps, 4)))

    @tf.function(autograph=False)
    def update(step: tf.Tensor, rows: tf.Tensor, rate: tf.Tensor) -> None:
        with tf.device(updates.device):
            updates_before = tf.identity(updates)
        loss, count, gradients = program.pull(rows)
        message = tf.stack([step, loss, program.number, tf.cast(count, tf.float32)])
        applied = program.push(gradients, rate)
        with tf.device(updates.device), tf.control_dependencies(applied[:1]):
            staleness = updates.assign_add(1.0).read_value() - 1.0 - updates_before
            log.scatter_nd_update([[tf.cast(message[0], tf.int32)]], [[message[1], staleness, message[2], message[3]]])

    for batch in run.steps():
        rate = tf.constant(learning_rate(run.task, batch.step), tf.float32)
        # The line that makes it distributed: whichever worker is free takes the step, and nobody waits for it.
        coordinator.schedule(update, (tf.constant(batch.step, tf.float32), tf.constant(batch.rows), rate))
        run.observe(world.Element(log, (batch.step, 0)))
    _, staleness, numbers, counts = log[run.first_step :].numpy().T
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

    all_numbers = set()
    for batch in run.steps():
        rate = tf.constant(learning_rate(run.task, batch.step), tf.float32)
        shards = np.split(batch.rows, run.world.size)
        # The line that makes it distributed: every worker computes a part, and the coordinator waits for all of them.
        parts = [coordinator.schedule(compute, (tf.constant(rows), rate)) for rows in shards]
        # A ready part is still on its worker. When the worker dies now, TensorFlow computes the part again, but a fetch
        # that was copying the part fails. After join every part is local, and fetch copies nothing (TensorFlow 2.21,
        # distribute/coordinator: Worker._process_closure in cluster_coordinator.py, RemoteValueImpl.get in values.py).
        coordinator.join()
        losses, counts, gradients, numbers = zip(*coordinator.fetch(parts), strict=True)
        all_numbers.update(map(float, numbers))
        if run.options.exchange:
            with coordinator.strategy.scope():
                push_sums(gradients, rate)
        # Each worker's loss is its part of the mean over the global batch.
        run.observe([run.world.size * loss for loss in losses], rows=sum(map(int, counts)))
    run.finish(restarted_workers=len(all_numbers - set(program.first_numbers)))


if __name__ == "__main__":
    exit_with_one_line(main)
