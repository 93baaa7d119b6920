"""A TensorFlow process in its cluster: finding the cluster, gathering values, serving, reporting a lost task."""

import contextlib
import os
import pickle
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain

import numpy as np
import tensorflow as tf

from common.contract.task import Task
from common.declarations.arguments import check_world_size
from common.declarations.slurm import task_of_step
from common.declarations.sweep import Sweep
from common.errors import LaunchFailedError, UserError
from common.measurement import machine
from common.measurement.world import World
from tf_impl import model
from tf_impl.cluster import Cluster, from_tf_config, meet, serve_until_gone
from tf_impl.strategies import ParameterServerOptions


def find_cluster(jobs: Collection[str]) -> Cluster:
    """The cluster of TF_CONFIG, else of the step that Slurm's srun started. Raises UserError for a malformed one."""
    if "TF_CONFIG" in os.environ:
        return from_tf_config(jobs)
    step = task_of_step()
    assert step, "The script starts its own cluster where neither names one."
    try:
        # To count GPUs the resolver needs nvidia-smi, and it divides by zero where there are none. It would only spread
        # GPUs over the tasks by CUDA_VISIBLE_DEVICES, which `choose_devices` does here (tensorflow issue 56894).
        slurm = tf.distribute.cluster_resolver.SlurmClusterResolver(
            gpus_per_node=step.world_size, gpus_per_task=1, auto_set_gpu=False
        )
        addresses = slurm.cluster_spec().as_dict()
    except RuntimeError as error:
        raise UserError(f"Slurm's variables don't name a cluster ({error}): start this program by srun.") from error
    job, index = slurm.get_task_info()
    return Cluster(addresses, job, index)


@contextlib.contextmanager
def joined(
    limits: Task | Sweep, backend: str | None = None
) -> Iterator[tuple[World, tf.distribute.MultiWorkerMirroredStrategy]]:
    """Join the workers of the cluster that TF_CONFIG or Slurm names. Give their world, and the strategy that joins it.

    `backend` carries the tensors; none: NCCL between GPUs, else TensorFlow's ring over gRPC. Raises UserError where the
    cluster isn't what the command line asks for, and LaunchFailedError where a task is lost.
    """
    cluster = find_cluster(("chief", "worker"))
    addresses, local_addresses = cluster.all_addresses("chief", "worker"), cluster.neighbours("chief", "worker")
    local_rank = local_addresses.index(cluster.address)
    check_world_size(limits, len(addresses), "the cluster")
    pinning = machine.pin(limits, local_rank, len(local_addresses))
    devices = model.choose_devices(limits, 1, local_rank, len(local_addresses))
    backend = backend or ("NCCL" if devices[0].startswith("/gpu") else "RING")
    communication = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation[backend]
    )
    meet(cluster, limits.deadline_seconds)
    with one_line_when_it_breaks():
        strategy = tf.distribute.MultiWorkerMirroredStrategy(resolver(cluster), communication)
        world = World(
            pinning=pinning,
            rank=addresses.index(cluster.address),
            size=len(addresses),
            backend=backend,
            device=model.device_name(devices),
            all_gather=partial(all_gather, strategy),
            synchronize=synchronize,
        )
        yield world, strategy
        # A worker that left while another still reads the last answer would look lost to the other.
        world.all_gather(None)


def resolver(cluster: Cluster) -> tf.distribute.cluster_resolver.ClusterResolver:
    """The cluster in TensorFlow's form."""
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster.addresses), task_type=cluster.job, task_id=cluster.index, rpc_layer="grpc"
    )


def check_servers(task: Task, options: ParameterServerOptions, cluster: Cluster) -> None:
    """Raise UserError unless the cluster is one coordinator, `--workers` workers and `--parameter-servers` servers."""
    counts = {job: len(cluster.addresses.get(job, [])) for job in ("chief", "worker", "ps")}
    if counts["chief"] != 1 or not counts["worker"] or not counts["ps"]:
        raise UserError(
            f"The cluster has {counts['chief']} coordinators (chief), {counts['worker']} workers and {counts['ps']} "
            "parameter servers (ps): give TF_CONFIG exactly one of the first, and one or more of the others."
        )
    check_world_size(task, counts["worker"], "the cluster")
    if options.parameter_servers not in (1, counts["ps"]):
        raise UserError(
            f"--parameter-servers {options.parameter_servers}, but the cluster has {counts['ps']}: give both the same "
            "number, or leave the option out."
        )


def serve(task: Task, cluster: Cluster) -> None:
    """Be a worker or a parameter server until the coordinator has gone."""
    local_addresses = cluster.neighbours("worker", "ps", "chief")
    machine.pin(task, local_addresses.index(cluster.address), len(local_addresses))
    # With fewer threads, requests that wait for one another hang (tensorflow.org, "Parameter server training", on
    # inter_op_parallelism_threads). The task still computes on its own cores only.
    waiting_threads = len(cluster.addresses["worker"]) + 1
    settings = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=task.threads, inter_op_parallelism_threads=task.threads + waiting_threads
    )
    meet(cluster, task.deadline_seconds)
    tf.distribute.Server(cluster.addresses, cluster.job, cluster.index, protocol="grpc", config=settings)
    serve_until_gone(cluster.addresses["chief"][0])


@dataclass(frozen=True)
class Element:
    """A number in a variable on a server, fetched at float()."""

    variable: tf.Variable
    position: tuple[int, ...]

    def __float__(self) -> float:
        return float(self.variable[self.position])


def by_shard(variables: model.Variables, gradients: Sequence[tf.Tensor]) -> tuple[model.Variables, list[tf.Tensor]]:
    """The parts of the variables, each on one server, and the matching parts of the gradients."""
    parts = [shards(parameter) for parameter in variables.parameters]
    pieces = [
        tf.split(gradient, [shard.shape[0] for shard in parameter_shards]) if len(parameter_shards) > 1 else [gradient]
        for gradient, parameter_shards in zip(gradients, parts, strict=True)
    ]
    momenta = [shard for momentum in variables.momenta for shard in shards(momentum)]
    return model.Variables(list(chain(*parts)), momenta), list(chain(*pieces))


def shards(variable: tf.Variable) -> Sequence[tf.Variable]:
    """The parts of a variable on the servers; the variable itself where it isn't cut."""
    return getattr(variable, "variables", [variable])


def number_workers(coordinator: tf.distribute.coordinator.ClusterCoordinator) -> tuple[tf.Variable, list[float]]:
    """A variable in which each worker keeps a number that it draws when it starts, and the numbers drawn so far.

    A new number in the result of a step shows that a worker was restarted.
    """
    with coordinator.strategy.scope():
        # Whole numbers that float32 represents exactly, so that they travel with the loss.
        number = tf.Variable(
            lambda: tf.cast(tf.random.uniform((), maxval=2**24, dtype=tf.int32), tf.float32), per_worker_variable=True
        )
    # The first function that reads a per-worker variable creates the workers' parts.
    coordinator.schedule(tf.function(lambda: tf.identity(number), autograph=False))
    coordinator.join()
    return number, [float(drawn) for drawn in number.read_all()]


def all_gather(strategy: tf.distribute.Strategy, value: object) -> list:
    """Every worker's value, in the order of ranks, on every worker. Values are pickled."""
    content = pickle.dumps(value)
    # TensorFlow's gather takes no bytes, so they travel as int32, padded to whole words. Lengths are gathered first.
    length = np.array([len(content)], np.int32)
    words = np.frombuffer(content + bytes(-len(content) % 4), np.int32)
    gather = _gatherer(strategy)
    lengths, all_words = (gather(array).numpy() for array in (length, words))
    ends = np.cumsum([-(-length // 4) for length in lengths])
    parts = np.split(all_words, ends[:-1])
    return [pickle.loads(part.tobytes()[:length]) for part, length in zip(parts, lengths, strict=True)]


@cache
def _gatherer(strategy: tf.distribute.Strategy) -> Callable[[np.ndarray], tf.Tensor]:
    """A compiled function that concatenates each worker's int32. Compiling another takes a tenth of a second."""

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.int32)], autograph=False)
    def gather(array: tf.Tensor) -> tf.Tensor:
        return strategy.gather(strategy.run(tf.identity, (array,)), axis=0)

    return gather


def synchronize() -> None:
    """Wait until the device has ended all its work.

    TensorFlow's own `sync_devices` fails in a process with collectives (the operation SyncDevice asks for a remote
    eager worker). Reading a value that is computed last on the same stream waits too.
    """
    tf.zeros(()).numpy()


@contextlib.contextmanager
def one_line_when_it_breaks() -> Iterator[None]:
    """Turn TensorFlow's error for a lost task into LaunchFailedError."""
    lost_task = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.DeadlineExceededError)
    try:
        yield
    except lost_task as error:
        raise LaunchFailedError(f"the cluster lost a task ({_reason(error)}).") from error


def _reason(error: tf.errors.OpError) -> str:
    """The first line of the error that is no heading, and says no place in a program."""
    lines = [line.strip() for line in str(error.message).splitlines()]
    reasons = [line for line in lines if line and not line.endswith(":") and not line.startswith(("File ", "[["))]
    return (reasons or [str(error.message)])[0][:200]
