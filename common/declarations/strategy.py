"""What a strategy says about itself. Everything else that is known about it derives from its declaration.

Each folder of strategies has a `strategies.py` with one `Strategy` for each of its scripts. Standard library only: Nox
reads the declarations under the user's own Python.
"""

from __future__ import annotations

import dataclasses
import math
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from common.command_line import check_choices, option_name
from common.contract.task import Task
from common.contract.work import Order, Recipe, Work
from common.declarations import slurm
from common.errors import UserError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

CONVENIENCE_OF = "convenience of"
"""Relation to the same distribution with a hand-written loop."""

ONE_PROCESS_OF = "one process of"
"""Relation to the strategy with a process for each replica, where this one has all replicas in one process."""

SHARDING_OF = "sharding of"
"""Relation to the strategy that keeps everything whole in each process, where this one divides it to save memory."""

PATARASUK = 'Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009'


def option(
    default: object,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    in_label: bool = True,
    other_maths: bool = False,
    of_world: bool = False,
    tried: tuple[object, ...] = (),
) -> Any:  # noqa: ANN401 (as dataclasses.field: what it is the default of decides)
    """The default of a field of `Options`, with the bounds of its value, which `check_bounds` holds it to.

    A value that isn't the default is named in the label of a launch unless `in_label` is false; with `other_maths` it
    makes the launch compute something else than the oracle on purpose. One that is `of_world` takes effect
    once, when the processes join; it can't change between two trainings in one world. `tried` are the values that the
    contract tests launch the strategy with.
    """
    metadata = {"at_least": at_least, "above": above, "at_most": at_most, "in_label": in_label}
    metadata |= {"other_maths": other_maths, "of_world": of_world, "tried": tried}
    return field(default=default, metadata=metadata)


def check_bounds(values: DataclassInstance) -> None:
    """Raises UserError when a field of this dataclass has a number that is out of the bounds of its `option`."""
    for each in dataclasses.fields(values):
        value = getattr(values, each.name)
        at_least, above, at_most = (each.metadata.get(bound) for bound in ("at_least", "above", "at_most"))
        if value is None:
            continue
        if at_least is not None and not at_least <= value < math.inf:
            raise UserError(f"{option_name(each.name)} {value}: give {at_least:g} or more.")
        if above is not None and not above < value < math.inf:
            raise UserError(f"{option_name(each.name)} {value}: give a number above {above:g}.")
        if at_most is not None and value > at_most:
            raise UserError(f"{option_name(each.name)} {value}: give {at_most:g} at most.")


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options that a strategy has beside those of every task: none, unless it declares a class of its own."""

    def __post_init__(self) -> None:
        """Raises UserError for any value that can't be meant."""
        check_choices(self)
        check_bounds(self)

    @property
    def is_elsewhere(self) -> bool:
        """Whether the workers are where this machine can't see: no private network is made for them."""
        return False

    def shared_memory_bytes(self, task: Task | None, workers: int) -> int:
        """Bytes that so many workers on one machine need below /dev/shm; `task`: what they train, if they do."""
        return 0


@dataclass(frozen=True, kw_only=True)
class ExchangeOptions(Options):
    """What every strategy has whose workers exchange gradients, and can do without."""

    exchange: bool = option(True, in_label=False)
    """With --no-exchange the gradients stay where they are: same program, no communication. It measures T_comp, and
    the replicas drift apart."""


@dataclass(frozen=True, kw_only=True)
class ReplicaOptions(ExchangeOptions):
    """What every strategy has whose replicas can be compared."""

    check_replicas: bool = option(False)
    """After every step compare all parameters of all replicas bit by bit, and stop at the first difference."""

    def __post_init__(self) -> None:
        """Raises UserError for any value that can't be meant."""
        super().__post_init__()
        if self.check_replicas and not self.exchange:
            raise UserError("--check-replicas with --no-exchange: replicas that don't exchange differ; leave one out.")


@dataclass(frozen=True, kw_only=True)
class MpiOptions(ReplicaOptions):
    """What every strategy has whose workers can meet over MPI."""

    backend: Literal["auto", "mpi"] = option("auto", of_world=True)
    """What carries the tensors."""
    mpi_starter: Literal["mpirun", "srun"] = option("mpirun", of_world=True)
    """What starts the workers that meet over MPI: mpirun, or `srun --mpi=pmix` where a Slurm has that."""

    def __post_init__(self) -> None:
        """Raises UserError for any value that can't be meant."""
        super().__post_init__()
        if self.mpi_starter == "srun" and self.backend != "mpi":
            raise UserError(f"--mpi-starter srun with --backend {self.backend}: add --backend mpi.")

    def shared_memory_bytes(self, task: Task | None, workers: int) -> int:
        """Over MPI what Open MPI takes of several ranks' segments as well.

        Each segment is sparse, and 1.05 times its 16 MiB have to be free (`ompi_info`, btl_sm_segment_size). A rank
        used up to 4.7 MiB of it (5.0.11).
        """
        needed = super().shared_memory_bytes(task, workers)
        return needed + (int(1.05 * 2**24) + workers * 5 * 2**20 if self.backend == "mpi" and workers > 1 else 0)


@dataclass(frozen=True)
class Traffic:
    """What is sent in a step by the formula of the algorithm: by all processes together, or from host to host."""

    bytes_per_step: float | None
    """None where it depends on more than the size of the model and the number of workers."""
    formula: str
    """The formula in words, with N for the number of workers and H for that of hosts."""
    source: str = ""
    """The paper or the document that has the formula."""
    sent_over_formula: float = 1.0
    """How many times these bytes the library sends between CPUs, where it takes another algorithm there."""


@dataclass(frozen=True)
class Graph:
    """A step as a prediction plays it, with default options."""

    order: Order
    first_bucket_bytes: int = 0
    """Of gradients that are summed in buckets: how many close the first one."""
    bucket_bytes: int = 0
    """And how many close each later one."""
    cycle_seconds: float = 0.0
    """Of gradients that are fused: how long one message is waited for."""
    micro_batches: int = 1
    """Of stages: parts of a batch that are under way at the same time."""
    asks_ahead: bool = False
    """Whether the ranks of a ring ask for messages before these are ready."""


def no_formula(*_: object) -> Traffic:
    """The traffic of a strategy that declares none: a formula that nobody has chosen would be a claim."""
    return Traffic(None, "no formula is declared")


def nothing_sent(parameter_bytes: int, workers: int, options: Options, hosts: int = 1) -> Traffic:
    """The traffic of replicas that share the memory of one process."""
    return Traffic(0.0, "nothing, within one process")


def activations_sent(*_: object) -> Traffic:
    """The traffic of parts of one model, which send activations: no formula."""
    return Traffic(None, "none where it depends on how the model is cut")


def ring_all_reduce(parameter_bytes: int, workers: int, options: Options, hosts: int = 1) -> Traffic:
    """The traffic of a ring all-reduce of gradients as large as the parameters: 2 (N - 1) times their bytes.

    Each of N workers sends 2 (N - 1) / N times the bytes to the next one in the order of the ranks (Patarasuk & Yuan,
    2009, equation 1). The ranks of a host follow one another, so as many workers send to another host as there are
    hosts.
    """
    if hosts > 1:
        formula = (
            "2 H (N - 1) / N times the bytes of the gradients from host to host, by a ring all-reduce over H hosts"
        )
        return Traffic(2.0 * hosts * (workers - 1) / workers * parameter_bytes, formula, PATARASUK)
    formula = "2 (N - 1) times the bytes of the gradients, by a ring all-reduce"
    return Traffic(2.0 * (workers - 1) * parameter_bytes, formula, PATARASUK)


def halved(traffic: Traffic) -> Traffic:
    """The same traffic of values that are rounded to 16 bits."""
    formula = f"half of {traffic.formula} (rounded to 16 bits)"
    half = None if traffic.bytes_per_step is None else traffic.bytes_per_step / 2
    return dataclasses.replace(traffic, bytes_per_step=half, formula=formula)


@dataclass(frozen=True)
class LaunchHost:
    """A host of a launch that spans several."""

    name: str
    """By which every host reaches it."""
    address: str
    """Its address in the network that joins the hosts."""
    network: str
    """That network, such as 10.77.0.0/24."""
    interface: str
    """Its own interface to that network."""
    workers: int


@dataclass(frozen=True)
class Launch:
    """What a launcher needs to know of the launch that it makes a command line for."""

    python: Path
    """The interpreter of the strategy's environment."""
    script: list[str]
    """The strategy's script and its options."""
    workers: int
    port: int
    """A free TCP port of this machine, for the launcher's own use; over several hosts the first of some, of each."""
    options: Options
    hosts: tuple[LaunchHost, ...] = ()
    """The hosts in the order of their workers' ranks, each with as many workers; none where this machine has all."""
    variables: tuple[str, ...] = ()
    """Names of the environment variables that every worker needs and that are set where the launcher is started."""

    def program(self, name: str) -> str:
        """A program that was installed beside the interpreter."""
        return str(self.python.parent / name)


@dataclass(frozen=True, kw_only=True)
class Launcher:
    """What starts the processes of a strategy."""

    name: str
    """What a user calls it."""
    command: Callable[[Launch], list[str]]
    """The command line that a user would type."""
    across_hosts: Callable[[Launch], list[list[list[str]]]] | None = None
    """The command lines that a user would type on each host, in the order of `Launch.hosts`; None where it can't."""
    task_in: Callable[[Mapping[str, str]], str | None] = lambda variables: None
    """What a process is by its environment variables, such as `rank 1` or `server 0`; None: no task of the launch."""
    signal_reports: tuple[str, ...] = ()
    """How it reports that a signal ended a rank: regular expressions with the groups `rank` and `signal`, or `rank` and
    `status`, as a shell has it, where it reports the process that ended first."""
    silence_reports: tuple[str, ...] = ()
    """How its processes report a rank that no longer answers: regular expressions with the group `rank`, or without it
    where the silent one is rank 0, through which the others meet."""
    cause_report: str = ""
    """How it reports why it gave up: a regular expression with the group `cause`; empty: it reports nothing of use."""
    plain_processes: bool = False
    """Whether as many plain processes, each with RANK and the like, start faster and do as well in its place."""


PROCESS = Launcher(name="python", command=lambda launch: [str(launch.python), *launch.script], plain_processes=True)
"""A single process, started by hand."""


def rank_by(*names: str) -> Callable[[Mapping[str, str]], str | None]:
    """A `Launcher.task_in` that reads the first number in the first of these variables."""

    def task_in(variables: Mapping[str, str]) -> str | None:
        value = next((variables[name] for name in names if name in variables), "").partition(",")[0]
        return f"rank {value}" if value.isdecimal() else None

    return task_in


MPI_RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK")
"""The variables by which Open MPI's mpirun, or a launcher with PMIx, tells a process its rank."""

MPI_WORLD = (
    r"OMPI_(COMM_WORLD_\w+|WORLD_\w+|UNIVERSE_SIZE|APP_CTX_\w+|NUM_APP_CTX|FIRST_RANKS|FILE_LOCATION|COMMAND|ARGV)"
    r"|OMPI_MCA_(PREFIXES|cpu_type|initial_wdir|num_procs)|(OMPI|PRTE)_MCA_(ess\w*|pmix)|PRTE_(LAUNCHED|SHARED_FS)"
    r"|(OMPI|PRTE)_MCA_(orte|prte)_(app_num|bound_at_launch|ess_\w+|hnp_uri|launch|local_daemon_uri|num_nodes)"
    r"|PMIX_(RANK|NAMESPACE|HOSTNAME|ID|VERSION|KEEPALIVE_PIPE|BFROP_BUFFER_TYPE|GDS_MODULE|SECURITY_MODE|PREFIX"
    r"|PARAM_FILE_PASSED|(DSTORE|LAUNCHER|PTL|SERVER)_\w+|\w*TMPDIR)"
    r"|PMI_(RANK|SIZE|FD|ID|JOBID|PORT|SPAWNED|APPNUM)|MPI_LOCAL(RANKID|NRANKS)|MV2_COMM_WORLD_\w+"
)
"""The environment variables by which MPI's launchers (Open MPI 4 and 5, MPICH, MVAPICH) tell a process its world: a
regular expression of their whole names."""

MPIRUN_SIGNAL = r"noticed that process rank (?P<rank>\d+)[^(]+\ssignal\s(?P<signal>\d+) \("
"""How mpirun, whose lines are wrapped, reports that a signal ended a rank."""


def mpirun(launch: Launch) -> list[str]:
    """The command line of mpirun: the environment's own, else the system's, which leaves pinning to us.

    Raises UserError when there is none, and where srun is asked for on a single machine.
    """
    if _is_by_srun(launch):
        raise UserError("--mpi-starter srun starts workers over nodes of Slurm's: leave it out on a single one.")
    program = shutil.which("mpirun", path=launch.python.parent) or shutil.which("mpirun")
    if not program:
        environment = launch.python.parent.parent.name
        raise UserError(f"There is no mpirun: run `nox -s {environment}` once, or install Open MPI.")
    command = [program, "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"]
    if os.geteuid() == 0:
        # In a network namespace of its own the launch is root of that namespace, which Open MPI refuses unless asked.
        command.append("--allow-run-as-root")
    if launch.hosts:
        # Where the ranks are, the only network that MPI may use between hosts, and the variables that ranks need.
        command += ["--host", ",".join(f"{host.name}:{host.workers}" for host in launch.hosts)]
        command += ["--mca", "btl_tcp_if_include", launch.hosts[0].network]
        command += [word for name in launch.variables for word in ("-x", name)]
    return [*command, "-np", str(launch.workers), str(launch.python), *launch.script]


MPIRUN_CAUSE = r"-{70,}\n(?!MPI_ABORT|prterun|Primary job)(?P<cause>[^-\s][\s\S]+?\.)\s"
"""The first sentence of Open MPI's first page: it draws a line above each."""

SRUN_SIGNAL = r"srun: error: \S+: task (?P<rank>\d+): (?!Exited)(?P<signal>[A-Z][a-z]+( [a-z]+)*)"
"""How srun reports that a signal ended a rank: by the signal's description (strsignal(3)), such as Killed."""

MPI_SIGNALS = (MPIRUN_SIGNAL, SRUN_SIGNAL)
"""The reports of whatever starts workers that meet over MPI."""


def srun(launch: Launch) -> list[str]:
    """The command line of srun, whose workers MPI finds by PMIx, with no binding but ours."""
    first, options = launch.hosts[0], ("--kill-on-bad-exit", "--cpu-bind=none")
    step = slurm.srun([host.name for host in launch.hosts], first.workers, mpi="pmix", options=options)
    return ["env", f"OMPI_MCA_btl_tcp_if_include={first.network}", *step, str(launch.python), *launch.script]


def mpi_across_hosts(launch: Launch) -> list[list[list[str]]]:
    """mpirun on the first host, which starts the others' workers by ssh, or srun. Raises UserError without mpirun."""
    return [[srun(launch) if _is_by_srun(launch) else mpirun(launch)], *([] for _ in launch.hosts[1:])]


def _is_by_srun(launch: Launch) -> bool:
    return isinstance(launch.options, MpiOptions) and launch.options.mpi_starter == "srun"


# Equal is only what is the same, since its mappings have no hash.
@dataclass(frozen=True, kw_only=True, eq=False)
class Probe:
    """What measures how fast a framework's own operations are on a machine, whatever a strategy makes of them."""

    script: str
    """Its program, from the repository's root."""
    like: str
    """A strategy of the family: the probe is started by the same launcher, with the same options."""
    operation: str
    """What exchanges as many bytes as the gradients have among its workers, in words."""
    products: bool = True
    """Whether it clocks the matrix products of a step; else another family's probe does, of the same framework."""
    tried: tuple[Mapping[str, str], ...] = ()
    """Environment variables by which a user might have the products computed faster: each set gets a launch."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """What the strategies of a folder share."""

    title: str
    """The name in prose."""
    environment: str
    """The dependency group that they run in, and the Nox session that installs it."""
    imports: str
    """A module that the environment brings."""
    packages: tuple[str, ...]
    """Distributions whose versions the record notes."""
    variables: tuple[str, ...] = ()
    """Prefixes of the environment variables that only its libraries obey."""
    world_variables: str = ""
    """The environment variables by which its launcher, or a cluster's operator, tells a process its world: a regular
    expression of their whole names."""
    colors: tuple[str, str, str]
    """The colours of the strategies in figures, from dark to light."""
    settings: Callable[[int, int, str], Mapping[str, str]] = lambda deadline_seconds, threads, interface: {}
    """Environment variables of a launch with this deadline and so many threads per worker, whose workers reach one
    another by this network interface."""
    made_on_request: bool = False
    """Whether its environment is made only for a session that names it or one of its strategies, and kept from then."""
    build: str | None = None
    """A script that the environment's Python runs when all is installed, from the repository's root."""
    environment_for_gpus: str | None = None
    """The dependency group in place of the other one where there are NVIDIA GPUs."""
    remedies: Mapping[str, str] = field(default_factory=dict)
    """How to mend, in its framework, mistakes that a referee knows by these names (`common.contract.mistakes`)."""
    probe: Probe | None = None
    """What tells, in a comparison, how fast its framework's own operations are."""
    library: str = ""
    """The library of collectives that carries what its strategies send between CPUs, by its name."""
    tracer: str | None = None
    """A module that runs a strategy's script and leaves the messages of a step (`common.records.trace`)."""
    watched: str | None = None
    """A module that reads the evidence of steps that a user's own loop has kept (`common.check.marks`)."""
    traced_with: Mapping[str, object] = field(default_factory=dict)
    """The values of a strategy's options with which the tracer sees it."""


# Equal is only what is the same, since its mappings have no hash.
@dataclass(frozen=True, kw_only=True, eq=False)
class Strategy:
    """A way to train the model: the declaration that all else derives from."""

    name: str
    """What it is called everywhere."""
    script: str
    """Its program, from the repository's root."""
    summary: str
    """One line for the menu and the README."""
    family: Family
    framework: str
    """What computes, as a record names it."""
    launcher: Launcher = PROCESS
    options: type[Options] = Options
    work: Work = Work.DATA_PARALLEL
    processes_beside: Callable[[Options], int] = lambda options: 0
    """How many processes it has beside its workers, such as servers: each takes a core as a worker does."""
    base: str | None = None
    """The baseline of its speed-up, a strategy that distributes nothing; None: this is one."""
    traffic: Callable[[int, int, Options, int], Traffic] = no_formula
    """By formula, from the bytes of all parameters, the number of workers, the options and the number of hosts. Of
    several hosts it is what goes from host to host."""
    graph: Graph | None = None
    """Its step; None: nothing predicts that."""
    copies: tuple[int, int, int] | None = None
    """Copies of the parameters, of their gradients and of the momentum that the processes of two workers hold together
    between steps; None: as many as its `work` takes, one for each replica."""
    repeated_bytes: Callable[[Task], int] = lambda task: 0
    """Bytes of one copy of those parameters that every worker holds although the model is divided among them."""
    synchronous_with: Mapping[str, object] = field(default_factory=dict)
    """The values of its options with which every step sees the gradients of all workers; empty: it always does."""
    check: Callable[[Task, Options, int, int], object] = lambda task, options, workers, gpus: None
    """Raises UserError where the task and the options can't be had with so many workers and local GPUs."""
    batch_norms: tuple[str, ...] = ("local",)
    """The kinds of batch normalisation that it can have with several workers."""
    alone: Recipe | None = None
    """What an update is made of with --no-exchange; None where no gradients of whole weights are."""
    compared_with: Mapping[str, str] = field(default_factory=dict)
    """By relation (CONVENIENCE_OF and the like) the name of another strategy."""
    quick: bool = False
    """Whether the quick profile of a comparison has it."""
    quick_where_made: bool = False
    """The same, but only where its environment is already made."""
    variants: tuple[Mapping[str, object], ...] = ()
    """Values of its options with which the full profile launches it as well."""
    recovers_with: tuple[Mapping[str, object], ...] = ()
    """Values of its options with which its own system goes on after a worker was lost."""
    over_links: tuple[Mapping[str, object], ...] = ()
    """Values with which it sends fewer bytes, or sends them otherwise: launched as well where the bandwidth of hosts'
    links is chosen."""

    @property
    def may_be_quick(self) -> bool:
        """Whether the quick profile has it where its environment is made."""
        return self.quick or self.quick_where_made

    def refuse(self, task: Task, options: Options, workers: int, gpus: int) -> None:
        """Raise UserError where `check` does, and for batch normalisation that the strategy can't have."""
        if workers > 1 and task.batch_norm not in ("none", *self.batch_norms):
            able = " or ".join(f"--batch-norm {kind}" for kind in self.batch_norms) or "one worker, or another strategy"
            raise UserError(f"{self.name} can't have --batch-norm {task.batch_norm} with several workers: use {able}.")
        if task.batch_norm == "synchronised" and not has_exchange(options):
            raise UserError("--batch-norm synchronised exchanges statistics: leave --no-exchange out.")
        self.check(task, options, workers, gpus)

    def is_synchronous(self, options: Options) -> bool:
        """Whether every step sees the gradients of all workers, so that a launch follows the oracle."""
        return all(getattr(options, name) == value for name, value in self.synchronous_with.items())

    def recipe(self, options: Options) -> Recipe | None:
        """What each update is made of with these options; None where nothing is declared."""
        with_exchange = Recipe.WHOLE_BATCH if self.work.is_divided else Recipe.AVERAGE
        return with_exchange if has_exchange(options) else self.alone

    def threads_of(self, workers: int) -> int:
        """The threads of so many workers and the processes beside them, with the options at their default."""
        return (workers + self.processes_beside(self.options())) * Task.threads

    @property
    def most_workers(self) -> int | None:
        """How many workers it can have; None: any number."""
        return 1 if self.work is Work.UNDISTRIBUTED else None


def label(options: Options) -> str:
    """The options that aren't at their default, in words, such as `5 steps per call` or `mpi backend`.

    Launches of a strategy with different labels are never pooled. Those that compute other maths say so last.
    """
    words = []
    for each in _changed(options):
        value = getattr(options, each.name)
        if each.metadata.get("in_label", True):
            in_words = each.name.replace("_", " ")
            words.append(
                (each.name if value else f"no {each.name}") if isinstance(value, bool) else f"{value} {in_words}"
            )
    return ", ".join([*words, "other maths"] if other_maths(options) else words)


def name_of(strategy: str, label: str) -> str:
    """What launches with this label are called: `my_strategy, my_option`, or the strategy's bare name."""
    return ", ".join(filter(None, [strategy, label]))


def other_maths(options: Options) -> list[str]:
    """Names of the options by which a launch computes something else than the oracle on purpose."""
    return [each.name for each in _changed(options) if each.metadata.get("other_maths")]


def _changed(options: Options) -> list[dataclasses.Field[Any]]:
    return [each for each in dataclasses.fields(options) if getattr(options, each.name) != each.default]


def has_exchange(options: Options) -> bool:
    """Whether gradients are exchanged: unless `--no-exchange` says otherwise."""
    return getattr(options, "exchange", True)
