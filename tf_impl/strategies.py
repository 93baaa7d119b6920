"""TensorFlow's strategies, in the order in which a student would read them. Start here in this folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from common.contract.task import Task
from common.contract.work import Order, Recipe, Work
from common.declarations.slurm import task_of_step
from common.declarations.strategy import (
    CONVENIENCE_OF,
    PROCESS,
    ExchangeOptions,
    Family,
    Graph,
    Launch,
    Launcher,
    Probe,
    ReplicaOptions,
    Strategy,
    Traffic,
    nothing_sent,
    option,
    ring_all_reduce,
)
from common.errors import UserError
from tf_impl.options import LoopOptions, XlaOptions, refuse_other_maths_of_keras

TENSORFLOW = Family(
    title="TensorFlow",
    environment="tensorflow",
    imports="tensorflow",
    packages=("tensorflow-cpu", "tensorflow", "keras"),
    remedies={
        "summed": "Divide each replica's loss by the global batch, as tf.nn.compute_average_loss does.",
        "averaged twice": "Divide the loss by the global batch and sum, or by the replica's and average.",
        "decoupled decay": "Keras's SGD keeps weight decay out of the momentum: add it to the loss.",
    },
    variables=("KERAS_", "TF_"),
    world_variables="TF_CONFIG",
    # Orange (Okabe & Ito 2008).
    colors=("#a33a00", "#d55e00", "#e6a100"),
    # TensorFlow prints errors alone.
    settings=lambda deadline_seconds, threads, interface: {"TF_CPP_MIN_LOG_LEVEL": "2"},
    environment_for_gpus="tensorflow-gpu",
    probe=Probe(
        script="tf_impl/ceiling.py",
        like="tf_multi_worker_mirrored",
        operation="one all-reduce of MultiWorkerMirroredStrategy",
        # Which of the two is the default depends on the processor (tensorflow.org/install, on oneDNN).
        tried=({"TF_ENABLE_ONEDNN_OPTS": "0"}, {"TF_ENABLE_ONEDNN_OPTS": "1"}),
    ),
    library="tensorflow",
    tracer="tf_impl.tracer",
)


def cluster_is_given() -> bool:
    """Whether TF_CONFIG, or Slurm in a step that srun started, says which task of which cluster this process is."""
    return "TF_CONFIG" in os.environ or task_of_step() is not None


def cluster_across_hosts(launch: Launch) -> list[list[list[str]]]:
    """The command lines by host: the script once for every task, with its TF_CONFIG.

    Coordinator and parameter servers are on the first host.
    """
    of_workers = [number for number, host in enumerate(launch.hosts) for _ in range(host.workers)]
    hosts = {"worker": of_workers}
    if isinstance(launch.options, ParameterServerOptions):
        hosts = {"chief": [0], "worker": of_workers, "ps": [0] * launch.options.parameter_servers}
    ports = iter(range(launch.port, launch.port + sum(map(len, hosts.values()))))
    addresses = {
        job: [f"{launch.hosts[host].address}:{next(ports)}" for host in job_hosts] for job, job_hosts in hosts.items()
    }
    commands: list[list[list[str]]] = [[] for _ in launch.hosts]
    for job, job_hosts in hosts.items():
        for index, host in enumerate(job_hosts):
            config = json.dumps({"cluster": addresses, "task": {"type": job, "index": index}})
            commands[host].append(["env", f"TF_CONFIG={config}", str(launch.python), *launch.script])
    return commands


def task_in(variables: Mapping[str, str]) -> str | None:
    """A cluster's worker or parameter server by its TF_CONFIG; None for every other task, and where there is none."""
    kinds = {"worker": "rank", "ps": "server"}
    try:
        task = json.loads(variables["TF_CONFIG"])["task"]
        return f"{kinds[task['type']]} {task['index']}"
    except (ValueError, TypeError, KeyError):
        return None


CLUSTER = Launcher(
    name="TF_CONFIG",
    command=PROCESS.command,
    across_hosts=cluster_across_hosts,
    task_in=task_in,
    plain_processes=True,
)
"""Several processes, which the script starts itself unless TF_CONFIG or Slurm names a cluster."""


# Options


@dataclass(frozen=True, kw_only=True)
class CentralOptions(LoopOptions, ExchangeOptions):
    """Options of a loop over replicas that share one copy of the variables."""


@dataclass(frozen=True, kw_only=True)
class MirroredOptions(LoopOptions, ReplicaOptions):
    """Options of a loop over replicas that each have a copy of the variables."""


@dataclass(frozen=True, kw_only=True)
class KerasOptions(XlaOptions, ReplicaOptions):
    """Options of Keras's fit."""


@dataclass(frozen=True, kw_only=True)
class ParameterServerOptions(ExchangeOptions):
    """Options of parameter servers."""

    parameter_servers: int = option(1, at_least=1)
    """Processes that hold the variables, each a part of them."""
    updates: Literal["asynchronous", "synchronous"] = option("asynchronous")
    """asynchronous applies each worker's gradients as they come, of `--batch` rows of its own in either scaling;
    synchronous waits for those of all workers, as every other strategy does."""


# Early refusals


def check_keras(task: Task, options: KerasOptions, workers: int, gpus: int) -> None:
    """Raise UserError for a task that Keras computes by another formula than torch's, or can't compile."""
    refuse_other_maths_of_keras(task, instead="tf_mirrored")
    if options.jit_compile and workers > 1:
        # https://www.tensorflow.org/xla/known_issues, "tf.Variable on a different device".
        raise UserError(
            "Keras compiles the step of all replicas into one XLA program, which can't have variables on several "
            "devices: leave --jit-compile out, start one worker, or use tf_mirrored."
        )


# Bytes by formula


def server_traffic(parameter_bytes: int, workers: int, options: ParameterServerOptions, hosts: int = 1) -> Traffic:
    """The traffic where parameter servers hold the weights.

    In an asynchronous step one worker pulls the weights and pushes its gradients, each as large as all gradients (Li et
    al., 2014, algorithm 1). In a synchronous step every worker pulls the weights and sends its gradients to the
    coordinator, which pushes their sum. From host to host only those workers send that aren't on the servers' host, the
    first.
    """
    source = 'Li et al., "Scaling distributed machine learning with the parameter server", 2014, algorithm 1'
    pulling = 1 if options.updates == "asynchronous" else workers
    if hosts > 1:
        formula = "of all workers' weights and gradients those of the workers that aren't on the servers' host"
        return Traffic(2.0 * pulling * (hosts - 1) / hosts * parameter_bytes, formula, source)
    if options.updates == "asynchronous":
        formula = "twice the bytes of the gradients: one worker's weights from the servers, its gradients to them"
        return Traffic(2.0 * parameter_bytes, formula, source)
    formula = (
        "2 N + 1 times the bytes of the gradients: weights to every worker, gradients back, their sum to the servers"
    )
    return Traffic((2.0 * workers + 1) * parameter_bytes, formula, source)


# The strategies

ONE_DEVICE = Strategy(
    name="tf_one_device",
    script="tf_impl/one_device.py",
    summary="OneDeviceStrategy: TensorFlow's baseline",
    family=TENSORFLOW,
    framework="tensorflow",
    options=LoopOptions,
    work=Work.UNDISTRIBUTED,
    traffic=nothing_sent,
    quick=True,
)
_distributed = partial(Strategy, family=TENSORFLOW, framework="tensorflow", base="tf_one_device")

MIRRORED = _distributed(
    name="tf_mirrored",
    script="tf_impl/mirrored.py",
    summary="MirroredStrategy, one replica per device",
    options=MirroredOptions,
    work=Work.REPLICAS_IN_ONE_PROCESS,
    alone=Recipe.OWN_PART,
    traffic=nothing_sent,
    quick=True,
    batch_norms=("local", "synchronised"),
)
MULTI_WORKER_MIRRORED = _distributed(
    name="tf_multi_worker_mirrored",
    script="tf_impl/multi_worker_mirrored.py",
    summary="MultiWorkerMirroredStrategy, one process per worker",
    launcher=CLUSTER,
    options=MirroredOptions,
    alone=Recipe.OWN_PART,
    traffic=ring_all_reduce,
    graph=Graph(Order.AT_END, asks_ahead=True),
    quick=True,
    batch_norms=("local", "synchronised"),
)
CENTRAL_STORAGE = _distributed(
    name="tf_central_storage",
    script="tf_impl/central_storage.py",
    summary="CentralStorageStrategy, variables on the host",
    options=CentralOptions,
    work=Work.REPLICAS_IN_ONE_PROCESS,
    alone=Recipe.FIRST_PART,
    traffic=nothing_sent,
    copies=(1, 2, 1),
)
PARAMETER_SERVER = _distributed(
    name="tf_parameter_server",
    script="tf_impl/parameter_server.py",
    summary="ParameterServerStrategy, asynchronous or synchronous",
    launcher=CLUSTER,
    options=ParameterServerOptions,
    work=Work.COORDINATED,
    processes_beside=lambda options: 1 + options.parameter_servers,
    traffic=server_traffic,
    graph=Graph(Order.SERVERS),
    synchronous_with={"updates": "synchronous"},
    # As it is.
    recovers_with=({},),
    quick=True,
)
KERAS_MIRRORED = _distributed(
    name="tf_keras_mirrored",
    script="tf_impl/keras_mirrored.py",
    summary="Keras 3's `fit` under MirroredStrategy",
    options=KerasOptions,
    work=Work.REPLICAS_IN_ONE_PROCESS,
    alone=Recipe.OWN_PART,
    traffic=nothing_sent,
    check=check_keras,
    compared_with={CONVENIENCE_OF: "tf_mirrored"},
)
