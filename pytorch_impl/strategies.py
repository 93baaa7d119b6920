"""PyTorch's strategies, in the order in which a student would read them. Start here in this folder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from common.contract.split_layers import bytes_of_whole_biases, check_layers_divide
from common.contract.task import Task
from common.contract.work import Order, Recipe, Work
from common.declarations.strategy import (
    CONVENIENCE_OF,
    MPI_RANKS,
    MPI_SIGNALS,
    MPIRUN_CAUSE,
    ONE_PROCESS_OF,
    PROCESS,
    SHARDING_OF,
    ExchangeOptions,
    Family,
    Graph,
    Launch,
    Launcher,
    MpiOptions,
    Options,
    Probe,
    ReplicaOptions,
    Strategy,
    Traffic,
    activations_sent,
    halved,
    mpi_across_hosts,
    mpirun,
    no_formula,
    nothing_sent,
    option,
    rank_by,
    ring_all_reduce,
)
from common.errors import UserError
from pytorch_impl.options import LoaderOptions

PYTORCH = Family(
    title="PyTorch",
    environment="torch",
    imports="torch",
    packages=("torch", "pytorch-lightning", "mpi4py", "openmpi"),
    remedies={
        "summed": "Divide by dist.get_world_size(), or all-reduce with ReduceOp.AVG over NCCL.",
        "not exchanged": "Wrap the model in DistributedDataParallel, and call that in place of the model.",
        "not broadcast": "Let DistributedDataParallel do it, or dist.broadcast each parameter from rank 0.",
        "not zeroed": "Call optimizer.zero_grad() before backward().",
        "one step old": "Wait for the handles that async_op=True gave before optimizer.step().",
        "decoupled decay": "Take optim.SGD's weight_decay, not that of optim.AdamW.",
    },
    variables=("ATEN_", "PYTORCH_", "TORCHDYNAMO_", "TORCHINDUCTOR_", "TORCH_"),
    # Those of torchrun, its own options among them (PET_), and those that Lightning reads.
    world_variables=r"RANK|WORLD_SIZE|NODE_RANK|(LOCAL|GROUP|ROLE)_(RANK|WORLD_SIZE|NAME)|MASTER_(ADDR|PORT)"
    r"|(TORCHELASTIC|PET)_\w+",
    # Blue (Okabe & Ito 2008).
    colors=("#17457e", "#0072b2", "#56b4e9"),
    # Gloo listens on the workers' network interface alone.
    settings=lambda deadline_seconds, threads, interface: {"GLOO_SOCKET_IFNAME": interface},
    probe=Probe(
        script="pytorch_impl/ceiling.py",
        like="torch_ddp",
        operation="one all_reduce of torch.distributed",
        # The first chooses MKL's kernels, by Intel's guide; the second did on other processors, before MKL 2020.1.
        tried=({"MKL_ENABLE_INSTRUCTIONS": "AVX512", "MKL_DEBUG_CPU_TYPE": "5"},),
    ),
    library="gloo",
    tracer="pytorch_impl.tracer",
    watched="pytorch_impl.watched",
)

# Libraries around PyTorch, in environments of their own. PYTORCH's probe clocks the operations of these as well.
_around_pytorch = partial(replace, PYTORCH, made_on_request=True, probe=None)
ACCELERATE = _around_pytorch(
    environment="accelerate",
    imports="accelerate",
    packages=("torch", "accelerate"),
    variables=(*PYTORCH.variables, "ACCELERATE_"),
)
DEEPSPEED = _around_pytorch(
    environment="deepspeed",
    imports="deepspeed",
    packages=("torch", "deepspeed"),
    variables=(*PYTORCH.variables, "DEEPSPEED_", "DS_"),
    tracer=None,
)
RAY = _around_pytorch(
    environment="ray",
    imports="ray",
    packages=("torch", "ray"),
    variables=(*PYTORCH.variables, "RAY_"),
    world_variables=rf"{PYTORCH.world_variables}|RAY_ADDRESS",
    tracer=None,
)


def torchrun(launch: Launch) -> list[str]:
    """The command line of torchrun, or of mpirun for `--backend mpi`. Raises UserError without mpirun."""
    if launch.options.backend == "mpi":
        return mpirun(launch)
    program = [launch.program("torchrun"), "--nproc-per-node", str(launch.workers)]
    if launch.options.max_restarts:
        return [*restarting(program, launch, "127.0.0.1", "127.0.0.1"), *launch.script]
    return [*program, "--master-port", str(launch.port), *launch.script]


def torchrun_across_hosts(launch: Launch) -> list[list[list[str]]]:
    """The command lines by host: torchrun on each, which meet at the first host; for `--backend mpi` mpirun or srun."""
    if launch.options.backend == "mpi":
        return mpi_across_hosts(launch)
    first, commands = launch.hosts[0].address, list[list[list[str]]]()
    for number, host in enumerate(launch.hosts):
        program = [launch.program("torchrun"), "--nnodes", str(len(launch.hosts))]
        if launch.options.max_restarts:
            program = restarting(program, launch, first, host.address)
        else:
            program += ["--master-addr", first, "--master-port", str(launch.port)]
        world = ["--nproc-per-node", str(host.workers), "--node-rank", str(number)]
        commands.append([[*program, *world, *launch.script]])
    return commands


def restarting(program: list[str], launch: Launch, first: str, own: str) -> list[str]:
    """This torchrun such that it starts its workers again. They meet at the `first` host's address from their `own`.

    Where workers share torchrun's store, those that are started again find the addresses of those before them, and are
    refused (pytorch issue 135712). The variable has each start make a store of its own, which needs this rendezvous.
    """
    meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{first}:{launch.port}", "--local-addr", own]
    restarts = ["--max-restarts", str(launch.options.max_restarts)]
    return ["env", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1", *program, *restarts, *meeting]


TORCHRUN_SIGNAL = r"Root Cause.*\n(.*\n){3}.*rank +: (?P<rank>\d+) .*\n.*exitcode +: -(?P<signal>\d+) "
"""torchrun's report of the signal that ended the first failed rank. torchrun itself ends the other ranks."""

TORCHRUN_OTHER_SIGNAL = (
    r"time +: (?P<time>\S+)\n.*\n.*rank +: (?P<rank>\d+) .*\n.*exitcode +: -(?P<signal>(?!6 |15 )\d+) (.*\n)+"
    r".*Root Cause.*\n.*\n.*time +: (?P=time)\n(.*\n){2}.*exitcode +: -6 "
)
"""torchrun's report of a signal from outside in the same second in which the rank that it takes for the first aborted.

It notes when a rank failed in whole seconds, and takes the lowest rank of those that it finds in one (`ProcessFailure`
in torch/distributed/elastic/multiprocessing/errors). But abort() is what a rank does itself, when it has lost another.
"""

TORCHRUN = Launcher(
    name="torchrun",
    command=torchrun,
    across_hosts=torchrun_across_hosts,
    task_in=rank_by("RANK", *MPI_RANKS),
    signal_reports=(TORCHRUN_OTHER_SIGNAL, TORCHRUN_SIGNAL, *MPI_SIGNALS),
    cause_report=MPIRUN_CAUSE,
    # It imports torch itself, a second before its workers do.
    plain_processes=True,
)

RAY_OBJECT_STORE_BYTES = 80 * 2**20
"""Of shared memory: Ray takes at least 75 MiB for objects, and gradients aren't among them."""

RAY_DRIVER = Launcher(name="Ray", command=PROCESS.command)
"""A single process that has Ray start the others."""


# Options


@dataclass(frozen=True, kw_only=True)
class SingleOptions(LoaderOptions):
    """Options of the baseline."""

    execution: Literal["eager", "compiled", "graphed"] = option("eager", tried=("compiled",))
    """eager: operation by operation. compiled: by torch.compile. graphed: as CUDA graphs, on a GPU."""


@dataclass(frozen=True, kw_only=True)
class DataParallelOptions(LoaderOptions, ExchangeOptions):
    """Options of DataParallel."""


@dataclass(frozen=True, kw_only=True)
class BackendOptions(Options):
    """Options of strategies that torchrun starts."""

    backend: Literal["auto", "gloo", "nccl"] = option("auto", of_world=True)
    """What carries the tensors; auto: NCCL between GPUs, else Gloo."""
    max_restarts: int = option(0, at_least=0, of_world=True)
    """How often torchrun, or Ray, starts all workers again after one has failed. They go on from `--checkpoint`."""

    @property
    def shares_gpus(self) -> bool:
        """Whether workers may share a GPU. NCCL refuses that (ncclInvalidUsage, "Duplicate GPU detected")."""
        return self.backend == "gloo"


@dataclass(frozen=True, kw_only=True)
class FullyShardedOptions(BackendOptions, LoaderOptions, ExchangeOptions):
    """Options of FSDP."""


@dataclass(frozen=True, kw_only=True)
class ReplicatedOptions(BackendOptions, LoaderOptions, ReplicaOptions):
    """Options of strategies that keep a replica in every process."""


@dataclass(frozen=True, kw_only=True)
class SyncSgdOptions(ReplicatedOptions, MpiOptions):
    """Options of synchronous SGD by hand."""

    backend: Literal["auto", "gloo", "nccl", "mpi"] = option("auto", of_world=True, tried=("mpi",))
    """What carries the tensors; auto: NCCL between GPUs, else Gloo. mpi goes through mpi4py, and mpirun implies it."""
    broken: Literal["none", "sum"] = option("none")
    """sum: never divide the summed gradients, as a well-known post does, to see what the recipe says of it."""

    def __post_init__(self) -> None:
        """Raises UserError for any value that can't be meant."""
        super().__post_init__()
        if self.max_restarts and self.backend == "mpi":
            raise UserError("--max-restarts is torchrun's, which --backend mpi does without: leave one of them out.")
        if self.broken != "none" and (self.backend == "mpi" or not self.exchange):
            raise UserError(
                f"--broken {self.broken} is of an exchange by torch: leave --backend mpi and --no-exchange out."
            )

    def shared_memory_bytes(self, task: Task | None, workers: int) -> int:
        """Over MPI the window of all workers' gradients and of their mean as well, in float32, and 5 % beside it."""
        needed = super().shared_memory_bytes(task, workers)
        if task is None or self.backend != "mpi":
            return needed
        from common.contract.model import parameter_bytes

        return needed + int(1.05 * (workers + 1) * parameter_bytes(task))


@dataclass(frozen=True, kw_only=True)
class BucketOptions(ReplicatedOptions):
    """Options of strategies that exchange gradients in buckets, as they become ready."""

    # Small enough that even the gradients of digits fill several buckets.
    bucket_megabytes: float | None = option(None, above=0, tried=(0.02,))
    """Gradients are exchanged in buckets of about so many MiB; none: torch's own choice, 25 after a first one of 1."""


@dataclass(frozen=True, kw_only=True)
class DdpOptions(BucketOptions):
    """Options of DistributedDataParallel."""

    static_graph: bool = option(False, tried=(True,))
    """Promise that every step uses the same parameters in the same order."""
    bucket_views: bool = option(True, tried=(False,))
    """Gradients are views into the buckets, so that none is copied there and back."""
    gradient_hook: Literal["none", "fp16", "bf16", "powersgd"] = option(
        "none", other_maths=True, tried=("fp16", "powersgd")
    )
    """Exchange gradients rounded to 16 bits, or as factors of low rank (PowerSGD). Changes the maths."""


@dataclass(frozen=True, kw_only=True)
class LocalSgdOptions(FullyShardedOptions):
    """Options of local SGD."""

    local_steps: int = option(1, at_least=1, other_maths=True, tried=(4,))
    """Steps that each worker takes by itself before all average their weights. More than 1 changes the maths."""
    outer_momentum: float = option(0.0, at_least=0, other_maths=True, tried=(0.9,))
    """Momentum of an outer Nesterov step by what the workers moved on average (DiLoCo has 0.9). Changes the maths."""


@dataclass(frozen=True, kw_only=True)
class PipelineOptions(BackendOptions):
    """Options of the pipeline."""

    micro_batches: int = option(4, at_least=1, tried=(1, 8))
    """Parts of a batch that are in the pipeline at the same time."""


@dataclass(frozen=True, kw_only=True)
class ZeroEngineOptions(BackendOptions, LoaderOptions):
    """Options of DeepSpeed's engine."""

    stage: Literal[0, 1, 2, 3] = option(1, tried=(0, 2, 3))
    """What is sharded: 0 nothing, 1 the optimizer's state, 2 the gradients as well, 3 the parameters as well."""


@dataclass(frozen=True, kw_only=True)
class RayOptions(ReplicatedOptions):
    """Options of Ray Train."""

    address: str | None = option(None, of_world=True)
    """A running Ray cluster whose nodes have the workers: HOST:PORT from one of its nodes, else ray://HOST:PORT; none:
    Ray is started here."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether the workers are a cluster's."""
        return self.address is not None

    def shared_memory_bytes(self, task: Task | None, workers: int) -> int:
        """Ray's object store as well, which it takes at once."""
        return super().shared_memory_bytes(task, workers) + (0 if self.is_elsewhere else RAY_OBJECT_STORE_BYTES)


# Early refusals


def check_backend(task: Task, options: BackendOptions, workers: int, gpus: int) -> None:
    """Raises UserError for NCCL without GPUs."""
    if options.backend == "nccl" and not gpus:
        raise UserError("--backend nccl, which joins GPUs, but this machine has none: leave --backend out.")


def check_execution(task: Task, options: SingleOptions, workers: int, gpus: int) -> None:
    """Raises UserError for CUDA graphs without a GPU."""
    if options.execution == "graphed" and (task.device == "cpu" or not gpus):
        raise UserError("--execution graphed makes CUDA graphs, which take an NVIDIA GPU: leave it out.")


def check_own_gpus(task: Task, options: BackendOptions, workers: int, gpus: int) -> None:
    """Raises UserError for workers that would share a GPU."""
    check_backend(task, options, workers, gpus)
    if task.device == "gpu" and 0 < gpus < workers:
        raise UserError(f"Each worker takes a GPU of its own here, and {workers} workers have {gpus}: start fewer.")


def check_ray(task: Task, options: RayOptions, workers: int, gpus: int) -> None:
    """Raises UserError for files that couldn't come back from a cluster into one folder, and as `check_own_gpus`."""
    if not options.is_elsewhere:
        check_own_gpus(task, options, workers, gpus)
    elif task.record and task.checkpoint and task.record.resolve().parent != task.checkpoint.resolve().parent:
        raise UserError("--address has all files come back into one folder: name --checkpoint beside --record.")
    elif task.is_accounted:
        raise UserError("--inject and --restarts are for workers on this machine: leave --address out.")
    if task.fault and task.fault.kind in ("late", "missing"):
        raise UserError(f"--inject {task.inject}: Ray tells a process its rank too late for it; choose another one.")


def check_local_steps(task: Task, options: LocalSgdOptions, workers: int, gpus: int) -> None:
    """Raises UserError for checkpoints between two averages of the weights: they would hold one worker's."""
    check_backend(task, options, workers, gpus)
    if task.checkpoint_steps % options.local_steps:
        raise UserError(
            f"--checkpoint-steps {task.checkpoint_steps} is between two averages of the weights: give a multiple of "
            f"--local-steps {options.local_steps}."
        )


def check_pipeline(task: Task, options: PipelineOptions, workers: int, gpus: int) -> None:
    """Raises UserError where there are more stages than layers, or the batch doesn't divide into micro-batches."""
    check_backend(task, options, workers, gpus)
    # Nox reads the declarations under the user's Python, which needs no NumPy.
    from common.contract.model import pieces

    layers = len(pieces(task))
    if workers > layers:
        raise UserError(
            f"{workers} pipeline stages for {layers} layers: use --workers {layers} or fewer, or more layers."
        )
    if task.batch_norm != "none" and options.micro_batches > 1:
        raise UserError(
            f"--batch-norm {task.batch_norm} takes statistics of all rows, and --micro-batches {options.micro_batches} "
            "cuts them: add --micro-batches 1."
        )
    rows = task.batch * (workers if task.scaling == "weak" else 1)
    if rows % options.micro_batches:
        raise UserError(
            f"A batch of {rows} rows doesn't divide into {options.micro_batches} micro-batches: "
            "give --micro-batches a divisor of it."
        )


def check_split_layers(task: Task, options: BackendOptions, workers: int, gpus: int) -> None:
    """Raises UserError where a layer can't be split evenly among the workers."""
    check_backend(task, options, workers, gpus)
    check_layers_divide(task, workers)


# Bytes by formula


def bucket_traffic(parameter_bytes: int, workers: int, options: DdpOptions, hosts: int = 1) -> Traffic:
    """The traffic of DistributedDataParallel: a ring all-reduce of the gradients, as its hook compresses them."""
    if options.gradient_hook == "powersgd":
        return Traffic(None, "none where a hook exchanges factors of low rank")
    traffic = ring_all_reduce(parameter_bytes, workers, options, hosts)
    return traffic if options.gradient_hook == "none" else halved(traffic)


def averaged_weights_traffic(parameter_bytes: int, workers: int, options: LocalSgdOptions, hosts: int = 1) -> Traffic:
    """The traffic of a ring all-reduce of the weights, spread over the steps from one average to the next."""
    traffic = ring_all_reduce(parameter_bytes, workers, options, hosts)
    if traffic.bytes_per_step is None or options.local_steps == 1:
        return traffic
    formula = f"{traffic.formula}, once in {options.local_steps} steps"
    return replace(traffic, bytes_per_step=traffic.bytes_per_step / options.local_steps, formula=formula)


def by_hand_traffic(parameter_bytes: int, workers: int, options: SyncSgdOptions, hosts: int = 1) -> Traffic:
    """The traffic of a ring all-reduce. Over MPI it is 0, since the workers of one machine share memory."""
    if options.backend != "mpi":
        return ring_all_reduce(parameter_bytes, workers, options, hosts)
    if hosts > 1:
        return Traffic(None, "none where MPI chooses the algorithm")
    return Traffic(0.0, "nothing between workers of one machine, which share memory")


def owned_update_traffic(parameter_bytes: int, workers: int, options: Options, hosts: int = 1) -> Traffic:
    """The traffic where each parameter is updated by its owner alone: 3 (N - 1) times the bytes of the model.

    A ring all-reduce sums the gradients, which are as large as the parameters. Then each owner sends its parameters to
    the N - 1 others. torch.distributed.optim.ZeroRedundancyOptimizer says "each rank will broadcast its parameters to
    all other peers".
    """
    if hosts > 1:
        return no_formula()
    formula = "3 (N - 1) times the bytes of the gradients: a ring all-reduce, then each parameter from its owner"
    return Traffic(3.0 * (workers - 1) * parameter_bytes, formula, "torch.distributed.optim.ZeroRedundancyOptimizer")


def fully_sharded_traffic(parameter_bytes: int, workers: int, options: Options, hosts: int = 1) -> Traffic:
    """The traffic where each worker keeps 1 / N of every parameter and gradient: 3 (N - 1) times the model's bytes.

    The parameters are all-gathered before the forward pass and again before the backward pass. The gradients are
    reduce-scattered. Each of the three sends (N - 1) times the model's bytes (Rajbhandari et al., "ZeRO", 2020, section
    7.2.2, P_os+g+p). Over Gloo torch's reduce-scatter is a whole all-reduce (pytorch issue 149869), which sends twice
    as much.
    """
    if hosts > 1:
        return no_formula()
    formula = (
        "3 (N - 1) times the bytes of the gradients: parameters gathered twice, gradients reduced and scattered; over "
        "Gloo, whose reduce-scatter is a whole all-reduce, it is 4 (N - 1)"
    )
    source = 'Rajbhandari et al., "ZeRO", 2020, section 7.2.2'
    return Traffic(3.0 * (workers - 1) * parameter_bytes, formula, source, sent_over_formula=4 / 3)


def engine_traffic(parameter_bytes: int, workers: int, options: ZeroEngineOptions, hosts: int = 1) -> Traffic:
    """The traffic of DeepSpeed's engine up to stage 2: 2 (N - 1) times the model's bytes.

    From stage 1 on gradients are reduced to their owners, which is a whole all-reduce over Gloo, and parameters are
    gathered after the update (Rajbhandari et al., "ZeRO", 2020, section 7.2.1).
    """
    if options.stage == 0:
        return ring_all_reduce(parameter_bytes, workers, options, hosts)
    if options.stage == 3:
        return Traffic(None, "none where DeepSpeed keeps small parameters whole (stage3_param_persistence_threshold)")
    if hosts > 1:
        return no_formula()
    formula = (
        "2 (N - 1) times the bytes of the gradients: gradients reduced to their owners, parameters gathered from them; "
        "over Gloo, where the first is a whole all-reduce, it is 3 (N - 1)"
    )
    source = 'Rajbhandari et al., "ZeRO", 2020, section 7.2.1'
    return Traffic(2.0 * (workers - 1) * parameter_bytes, formula, source, sent_over_formula=1.5)


BUCKETS = Graph(Order.BUCKETS, first_bucket_bytes=2**20, bucket_bytes=25 * 2**20)
"""DistributedDataParallel's: the gradient that fills a bucket closes it (torch/csrc/distributed/c10d/reducer.cpp,
compute_bucket_assignment_by_size)."""


# The strategies

_in_one_process = partial(Strategy, family=PYTORCH, framework="torch")
_by_torchrun = partial(
    _in_one_process,
    launcher=TORCHRUN,
    base="torch_single",
    check=check_backend,
    recovers_with=({"max_restarts": 1},),
)

SINGLE = _in_one_process(
    name="torch_single",
    script="pytorch_impl/single.py",
    summary="no distribution: PyTorch's baseline",
    options=SingleOptions,
    work=Work.UNDISTRIBUTED,
    check=check_execution,
    traffic=nothing_sent,
    quick=True,
)
DATA_PARALLEL = _in_one_process(
    name="torch_data_parallel",
    script="pytorch_impl/data_parallel.py",
    summary="DataParallel: one process, the model copied in every step",
    options=DataParallelOptions,
    work=Work.REPLICAS_IN_ONE_PROCESS,
    alone=Recipe.FIRST_PART,
    base="torch_single",
    traffic=nothing_sent,
    # The replicas are made in every step, and forgotten.
    copies=(1, 1, 1),
    compared_with={ONE_PROCESS_OF: "torch_ddp"},
)
SYNC_SGD = _by_torchrun(
    name="torch_sync_sgd",
    script="pytorch_impl/sync_sgd.py",
    summary="synchronous SGD by hand, over Gloo, NCCL or MPI",
    options=SyncSgdOptions,
    alone=Recipe.OWN_SHARD,
    traffic=by_hand_traffic,
    graph=Graph(Order.ONE_BY_ONE),
    variants=({"backend": "mpi"},),
    over_links=({"backend": "mpi"},),
)
HOOK_DDP = _by_torchrun(
    name="torch_hook_ddp",
    script="pytorch_impl/hook_ddp.py",
    summary="a DDP of one's own, by gradient hooks",
    options=BucketOptions,
    alone=Recipe.OWN_SHARD,
    traffic=ring_all_reduce,
    graph=BUCKETS,
    batch_norms=("local", "synchronised"),
)
DDP = _by_torchrun(
    name="torch_ddp",
    script="pytorch_impl/ddp.py",
    summary="DistributedDataParallel over Gloo or NCCL",
    options=DdpOptions,
    alone=Recipe.OWN_SHARD,
    traffic=bucket_traffic,
    graph=BUCKETS,
    quick=True,
    variants=({"loader_workers": 1},),
    over_links=({"gradient_hook": "fp16"}, {"gradient_hook": "powersgd"}),
    batch_norms=("local", "synchronised"),
)
LOCAL_SGD = _by_torchrun(
    name="torch_local_sgd",
    script="pytorch_impl/local_sgd.py",
    summary="local SGD: every few steps the workers average their weights",
    options=LocalSgdOptions,
    alone=Recipe.OWN_SHARD,
    traffic=averaged_weights_traffic,
    graph=Graph(Order.ONE_BY_ONE),
    check=check_local_steps,
    over_links=({"local_steps": 8}, {"local_steps": 8, "outer_momentum": 0.9}),
)
ZERO = _by_torchrun(
    name="torch_zero",
    script="pytorch_impl/zero.py",
    summary="ZeroRedundancyOptimizer: the optimizer's state is sharded",
    options=ReplicatedOptions,
    alone=Recipe.OWN_PARAMETERS,
    traffic=owned_update_traffic,
    graph=Graph(Order.SHARDED_STATE),
    copies=(2, 2, 1),
    compared_with={SHARDING_OF: "torch_ddp"},
    batch_norms=("local", "synchronised"),
)
FSDP = _by_torchrun(
    name="torch_fsdp",
    script="pytorch_impl/fsdp.py",
    summary="FSDP2 (`fully_shard`): parameters and gradients too",
    options=FullyShardedOptions,
    traffic=fully_sharded_traffic,
    graph=Graph(Order.SHARDS),
    copies=(1, 1, 1),
    compared_with={SHARDING_OF: "torch_ddp"},
    batch_norms=("local", "synchronised"),
)
MODEL_PARALLEL = _by_torchrun(
    name="torch_model_parallel",
    script="pytorch_impl/model_parallel.py",
    summary="a pipeline: layers split over workers, micro-batches",
    options=PipelineOptions,
    work=Work.PARTS_OF_ONE_MODEL,
    traffic=activations_sent,
    graph=Graph(Order.STAGES, micro_batches=PipelineOptions().micro_batches),
    check=check_pipeline,
)
TENSOR_PARALLEL = _by_torchrun(
    name="torch_tensor_parallel",
    script="pytorch_impl/tensor_parallel.py",
    summary="every layer split, by outputs and by inputs in turn",
    options=BackendOptions,
    work=Work.PARTS_OF_ONE_MODEL,
    traffic=activations_sent,
    repeated_bytes=bytes_of_whole_biases,
    check=check_split_layers,
)
LIGHTNING_DDP = _by_torchrun(
    name="torch_lightning_ddp",
    script="pytorch_impl/lightning_ddp.py",
    summary="Lightning's Trainer over DDP",
    options=ReplicatedOptions,
    check=check_own_gpus,
    alone=Recipe.OWN_SHARD,
    traffic=ring_all_reduce,
    graph=BUCKETS,
    compared_with={CONVENIENCE_OF: "torch_ddp"},
)
ACCELERATE_DDP = _by_torchrun(
    family=ACCELERATE,
    name="torch_accelerate",
    script="pytorch_impl/accelerate_ddp.py",
    summary="Hugging Face's Accelerate over DDP",
    options=ReplicatedOptions,
    check=check_own_gpus,
    alone=Recipe.OWN_SHARD,
    traffic=ring_all_reduce,
    graph=BUCKETS,
    compared_with={CONVENIENCE_OF: "torch_ddp"},
)
ZERO_ENGINE = _by_torchrun(
    family=DEEPSPEED,
    name="torch_deepspeed",
    script="pytorch_impl/zero_engine.py",
    summary="DeepSpeed's engine, with ZeRO's stages 0 to 3",
    options=ZeroEngineOptions,
    check=check_own_gpus,
    traffic=engine_traffic,
    # In stage 1, where each worker also has a copy of the part of the weights that it updates.
    copies=(3, 0, 1),
    compared_with={SHARDING_OF: "torch_ddp"},
)
RAY_TRAIN = Strategy(
    family=RAY,
    launcher=RAY_DRIVER,
    framework="torch",
    base="torch_single",
    name="torch_ray",
    script="pytorch_impl/ray_train.py",
    summary="Ray Train's TorchTrainer over DDP",
    options=RayOptions,
    check=check_ray,
    alone=Recipe.OWN_SHARD,
    traffic=ring_all_reduce,
    graph=BUCKETS,
    recovers_with=({"max_restarts": 1},),
    compared_with={CONVENIENCE_OF: "torch_ddp"},
)
