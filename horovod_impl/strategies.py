"""Horovod's strategies, in the order in which a student would read them. Start here in this folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from common.contract.work import Order, Recipe
from common.declarations.strategy import (
    CONVENIENCE_OF,
    MPI_RANKS,
    MPI_SIGNALS,
    MPIRUN_CAUSE,
    Family,
    Graph,
    Launch,
    Launcher,
    MpiOptions,
    Options,
    Probe,
    Strategy,
    Traffic,
    halved,
    mpi_across_hosts,
    mpirun,
    option,
    rank_by,
    ring_all_reduce,
)
from common.errors import UserError
from pytorch_impl.options import LoaderOptions
from tf_impl.options import LoopOptions, refuse_other_maths_of_keras

if TYPE_CHECKING:
    from common.contract.task import Task


def settings(deadline_seconds: int, threads: int, interface: str) -> Mapping[str, str]:
    """Environment variables of a launch.

    Gloo listens on the workers' network interface alone, TensorFlow prints errors alone, and Horovod waits no longer
    than the launch lasts.
    """
    return {
        "GLOO_SOCKET_IFNAME": interface,
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": str(deadline_seconds),
        "HOROVOD_START_TIMEOUT": str(deadline_seconds),
        "HOROVOD_ELASTIC_TIMEOUT": str(deadline_seconds),
    }


HOROVOD = Family(
    title="Horovod",
    environment="horovod",
    imports="horovod",
    packages=("horovod", "torch", "tensorflow-cpu", "tensorflow", "keras", "openmpi"),
    remedies={
        "summed": "Leave op=hvd.Average as it is.",
        "not exchanged": "Wrap the optimizer in hvd.DistributedOptimizer.",
        "not broadcast": "Broadcast rank 0's parameters before the first step, by hvd.broadcast_parameters.",
        "rate times workers": "Leave the learning rate as it is: hvd.Average keeps the size of the gradient.",
    },
    variables=("HOROVOD_",),
    world_variables=r"_?HOROVOD_(RANK|SIZE|(LOCAL|CROSS)_(RANK|SIZE)|GLOO_(RENDEZVOUS_\w+|IFACE)|CONTROLLER|HOSTNAME"
    r"|CPU_OPERATIONS|ELASTIC|SECRET_KEY)",
    # Green (Okabe & Ito 2008).
    colors=("#00604a", "#009e73", "#74c7a0"),
    settings=settings,
    build="horovod_impl/building/build.py",
    environment_for_gpus="horovod-nccl",
    probe=Probe(
        script="horovod_impl/ceiling.py",
        like="horovod_torch",
        operation="one allreduce_ of Horovod",
        products=False,
    ),
    library="horovod_gloo",
    tracer="horovod_impl.tracer",
    traced_with={"trace": True},
)


ELASTIC = ("--min-np", "1", "--blacklist-cooldown-range", "1", "60")
"""What makes horovodrun elastic: it goes on with any worker, and asks a host that lost one again after some seconds."""

HALVES = ("localhost", "127.0.0.1")
"""The names by which elastic horovodrun takes one machine for two hosts: it gives up the host that lost a worker."""


def is_elastic(options: Options) -> bool:
    """Whether training goes on after a worker was lost."""
    return isinstance(options, ElasticOptions) and options.commit_steps > 0


def horovodrun(launch: Launch) -> list[str]:
    """The command line of horovodrun over Gloo, or of mpirun for `--backend mpi`. Raises UserError without mpirun."""
    if launch.options.backend == "mpi":
        return mpirun(launch)
    program = [launch.program("horovodrun"), "--gloo", "-np", str(launch.workers)]
    if is_elastic(launch.options):
        slots = [math.ceil(launch.workers / 2), launch.workers // 2]
        hosts = [f"{name}:{count}" for name, count in zip(HALVES, slots, strict=True) if count]
        program += [*ELASTIC, "--network-interfaces", "lo", "-H", ",".join(hosts)]
    return [*program, str(launch.python), *launch.script]


def horovodrun_across_hosts(launch: Launch) -> list[list[list[str]]]:
    """The command lines by host: horovodrun, mpirun or srun on the first, which starts the other hosts' workers."""
    if launch.options.backend == "mpi":
        return mpi_across_hosts(launch)
    world = ["-np", str(launch.workers), "-H", ",".join(f"{host.name}:{host.workers}" for host in launch.hosts)]
    interfaces = {host.interface for host in launch.hosts}
    # With a common interface horovodrun needn't search for interfaces by which the hosts reach one another.
    network = ["--network-interfaces", *interfaces] if len(interfaces) == 1 else []
    # For an hour horovodrun would cache which hosts are reachable, and not notice a host that has gone.
    command = [launch.program("horovodrun"), "--gloo", "--disable-cache", *world, *network]
    command += ELASTIC if is_elastic(launch.options) else []
    return [[[*command, str(launch.python), *launch.script]], *([] for _ in launch.hosts[1:])]


HOROVODRUN_SIGNAL = r"Process name: (?P<rank>\d+)\n(?:\S+\| )?Exit code: (?P<status>129|1[3-8]\d|19[0-2])\b"
"""How horovodrun over Gloo reports that a signal ended the process that ended first, with a shell's status."""

HOROVODRUN = Launcher(
    name="horovodrun",
    command=horovodrun,
    across_hosts=horovodrun_across_hosts,
    task_in=rank_by("HOROVOD_RANK", *MPI_RANKS),
    signal_reports=(HOROVODRUN_SIGNAL, *MPI_SIGNALS),
    cause_report=MPIRUN_CAUSE,
)


# Options


@dataclass(frozen=True, kw_only=True)
class HorovodOptions(MpiOptions):
    """Options of Horovod."""

    backend: Literal["auto", "gloo", "mpi"] = option("auto", of_world=True, tried=("mpi",))
    """Horovod's controller, which carries the tensors of CPUs too; auto: whichever the launcher started. Between GPUs
    Horovod takes NCCL by itself, where its build has it."""
    compression: Literal["none", "fp16"] = option("none", other_maths=True, tried=("fp16",))
    """Exchange gradients rounded to 16 bits. Changes the maths."""
    adasum: bool = option(False, other_maths=True, tried=(True,))
    """Over MPI: combine gradients by Adasum, which adds what is orthogonal in them and averages what is parallel
    (arXiv 2006.02924). Changes the maths."""
    fusion_megabytes: float | None = option(None, at_least=0, of_world=True, tried=(0.0,))
    """Gradients found ready at the same time are exchanged together, up to so many MiB; 0: each alone; none: Horovod's
    own choice, 128."""
    cycle_milliseconds: float | None = option(None, at_least=0, of_world=True, tried=(0.2,))
    """How often Horovod looks for gradients that are ready; 0: without a pause; none: Horovod's own choice, 1."""
    autotune: bool = option(False, of_world=True, tried=(True,))
    """Let Horovod try fusion thresholds and cycle times while it trains, and keep the best."""
    hierarchical_all_reduce: bool = option(False, of_world=True)
    """Over NCCL: sum gradients within each machine first, then between machines."""
    trace: bool = option(False, of_world=True, tried=(True,))
    """Have Horovod write its timeline beside the record (`.trace`, for chrome://tracing or Perfetto), and note the sums
    of its phases in the record."""


@dataclass(frozen=True, kw_only=True)
class ElasticOptions(HorovodOptions):
    """Options of Horovod where training can go on with fewer workers."""

    commit_steps: int = option(0, at_least=0, of_world=True, tried=(10,))
    """Every so many steps keep the state in memory, and go on from there with the workers that are left when one was
    lost, or when a host has come (Horovod's elastic mode); 0: end with the first that is lost."""

    def __post_init__(self) -> None:
        """Raises UserError for any value that can't be meant."""
        super().__post_init__()
        if self.commit_steps and self.backend == "mpi":
            raise UserError("--commit-steps with --backend mpi: Horovod is elastic over Gloo alone; leave one out.")


@dataclass(frozen=True, kw_only=True)
class HorovodTorchOptions(LoaderOptions, ElasticOptions):
    """Options of Horovod for torch."""


@dataclass(frozen=True, kw_only=True)
class HorovodTensorflowOptions(LoopOptions, ElasticOptions):
    """Options of Horovod for TensorFlow."""


# Early refusals


def check_horovod(task: Task, options: HorovodOptions, workers: int, gpus: int) -> None:
    """Raise UserError for options that Horovod can't have.

    These are Adasum without MPI, Adasum with workers that don't pair, and NCCL's own option without GPUs.
    """
    if options.adasum and options.backend != "mpi":
        raise UserError("--adasum: between CPUs Horovod has Adasum over MPI alone; add --backend mpi.")
    if options.adasum and workers & (workers - 1):
        raise UserError(f"--adasum with {workers} workers: Horovod combines them in pairs; use 1, 2, 4 or 8.")
    if options.hierarchical_all_reduce and not gpus:
        raise UserError(
            "--hierarchical-all-reduce: Horovod sums machine by machine over NCCL alone, which joins GPUs, but this "
            "machine has none; leave it out."
        )


def check_keras(task: Task, options: HorovodOptions, workers: int, gpus: int) -> None:
    """Raise UserError as `check_horovod` does, and for a task that Keras computes by another formula than torch's."""
    check_horovod(task, options, workers, gpus)
    refuse_other_maths_of_keras(task, instead="horovod_tensorflow")


# Bytes by formula


def horovod_traffic(parameter_bytes: int, workers: int, options: HorovodOptions, hosts: int = 1) -> Traffic:
    """The traffic of a ring all-reduce.

    There is no formula for Adasum, nor between hosts for MPI, which chooses its algorithm.
    """
    if options.adasum:
        return Traffic(None, "none for Adasum")
    if hosts > 1 and options.backend == "mpi":
        return Traffic(None, "none where MPI chooses the algorithm")
    traffic = ring_all_reduce(parameter_bytes, workers, options, hosts)
    return halved(traffic) if options.compression == "fp16" else traffic


# The strategies

SETTINGS_TO_TRY = (
    {"backend": "mpi"},
    # The best of 0, 0.1, 0.3 and 3 ms for horovod_torch on pathway, on two cores.
    {"cycle_milliseconds": 0.1},
    {"backend": "mpi", "cycle_milliseconds": 0.1},
    {"trace": True},
    {"backend": "mpi", "trace": True},
)

CYCLES = Graph(Order.FUSED, cycle_seconds=0.001)
"""What becomes ready within a cycle is fused (HOROVOD_CYCLE_TIME)."""

TORCH = Strategy(
    name="horovod_torch",
    script="horovod_impl/train.py",
    summary="Horovod for torch, over Gloo or MPI",
    family=HOROVOD,
    framework="torch",
    launcher=HOROVODRUN,
    options=HorovodTorchOptions,
    alone=Recipe.OWN_SHARD,
    base="torch_single",
    traffic=horovod_traffic,
    graph=CYCLES,
    check=check_horovod,
    quick=True,
    variants=SETTINGS_TO_TRY,
    recovers_with=({"commit_steps": 50},),
    over_links=({"compression": "fp16"}, {"backend": "mpi"}),
)
TENSORFLOW = Strategy(
    name="horovod_tensorflow",
    script="horovod_impl/train_tensorflow.py",
    summary="Horovod for TensorFlow: `DistributedGradientTape`",
    family=HOROVOD,
    framework="tensorflow",
    launcher=HOROVODRUN,
    options=HorovodTensorflowOptions,
    alone=Recipe.OWN_SHARD,
    base="tf_one_device",
    traffic=horovod_traffic,
    graph=CYCLES,
    check=check_horovod,
    variants=SETTINGS_TO_TRY,
    recovers_with=({"commit_steps": 50},),
)
KERAS = Strategy(
    name="horovod_keras",
    script="horovod_impl/train_keras.py",
    summary="Keras 3's `fit` with Horovod's all-reduce",
    family=HOROVOD,
    framework="tensorflow",
    launcher=HOROVODRUN,
    options=HorovodOptions,
    alone=Recipe.OWN_SHARD,
    base="tf_one_device",
    traffic=horovod_traffic,
    graph=CYCLES,
    check=check_keras,
    compared_with={CONVENIENCE_OF: "horovod_tensorflow"},
    variants=({"backend": "mpi"},),
)
