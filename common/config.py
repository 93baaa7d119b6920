"""One frozen, validated Config. The command line of every strategy derives from its fields."""

import dataclasses
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, get_args, get_origin

import tyro

from common.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Config:
    """Everything that decides what is computed and how it is measured. The defaults are those of `--preset`."""

    preset: Literal["digits", "mnist", "pathway", "wide"] = "digits"
    """The regime whose values the other options start from: digits (latency), mnist, pathway (communication),
    wide (compute)."""
    dimensions: tuple[int, ...] = (64, 128, 64, 10)
    """Width of the input, of every hidden layer and of the output."""
    activation: Literal["relu", "tanh"] = "relu"
    """What follows every layer but the last."""
    bias: bool = True
    """Whether the layers have a bias."""
    scaling: Literal["strong", "weak"] = "strong"
    """strong: `--batch` is the global batch. weak: `--batch` is what each worker gets."""
    batch: int = 64
    """Rows per step, of the whole world (strong scaling) or of each worker (weak scaling)."""
    learning_rate: float = 0.1
    """Learning rate of the first step. Never scaled by the number of workers."""
    final_learning_rate: float | None = None
    """Learning rate reached by a linear decay; none: constant."""
    decay_steps: int = 1000
    """Steps that the linear decay takes."""
    momentum: float = 0.0
    """Momentum of SGD, by torch's formula."""
    weight_decay: float = 0.0
    """Weight decay of SGD, by torch's formula."""
    steps: int = 300
    """Steps to train, counted from the first step of the run."""
    warmup_steps: int = 50
    """Steps before the clock of the first window starts, the first step among them."""
    window_steps: int = 25
    """Steps per clocked window."""
    seed: int = 0
    """Seed of the initial weights and of the order of the rows."""
    workers: int | None = None
    """World size; none: what the launcher says, or 1."""
    threads: int = 1
    """Threads that each worker computes with."""
    exchange: bool = True
    """With --no-exchange the gradients stay where they are: same program, no communication. It measures T_comp, and
    the replicas drift apart."""
    device: Literal["auto", "cpu", "gpu"] = "auto"
    """Where to compute; auto: on GPUs where each local worker can have one of its own, else on the CPU."""
    deadline_seconds: float = 600.0
    """The whole launch is ended after this time, and a worker waits no longer than this for another one."""
    data_dir: Path | None = None
    """Folder of the four MNIST files (IDX, gzipped or not); none: the folder `mnist` in the data cache."""
    checkpoint: Path | None = None
    """File to save weights, optimizer state and step in at the end; training goes on from it when it exists."""
    checkpoint_steps: int = 0
    """Also save the checkpoint, and measure the test accuracy, every so many steps; 0: only at the end."""
    record: Path | None = None
    """File of the run record; none: a new file in `results/`."""
    jit_compile: bool = False
    """TensorFlow: compile each replica's forward and backward pass with XLA."""
    steps_per_call: int = 1
    """TensorFlow: steps in each call of the compiled function. Windows end where they would; a call is cut short
    there."""
    input: Literal["memory", "tf_data"] = "memory"
    """TensorFlow: memory keeps all rows on the devices, and a step names its own; tf_data reads them through a tf.data
    pipeline that runs ahead."""
    parameter_servers: int = 1
    """tf_parameter_server: processes that hold the variables, each a part of them."""
    backend: Literal["auto", "gloo", "nccl", "mpi"] = "auto"
    """PyTorch: what carries the tensors; auto: NCCL between GPUs, else Gloo. mpi goes through mpi4py, and mpirun
    implies it. Horovod: its controller, gloo or mpi, which carries the tensors of CPUs too; auto: the launcher's."""
    bucket_megabytes: float | None = None
    """torch_ddp, torch_hook_ddp: gradients are exchanged in buckets of about so many MiB, as they become ready; none:
    torch's own choice, 25 after a first one of 1."""
    static_graph: bool = False
    """torch_ddp: promise that every step uses the same parameters in the same order."""
    bucket_views: bool = True
    """torch_ddp: gradients are views into the buckets, so that none is copied there and back."""
    gradient_hook: Literal["none", "fp16", "bf16", "powersgd"] = "none"
    """torch_ddp: exchange gradients rounded to 16 bits, or as factors of low rank (PowerSGD). Changes the maths."""
    bf16_autocast: bool = False
    """PyTorch: compute the layers' products in bfloat16. Changes the maths."""
    micro_batches: int = 4
    """torch_model_parallel: parts of a batch that are in the pipeline at the same time."""
    compression: Literal["none", "fp16"] = "none"
    """Horovod: exchange gradients rounded to 16 bits. Changes the maths."""
    adasum: bool = False
    """Horovod over MPI: combine gradients by Adasum, which adds what is orthogonal in them and averages what is
    parallel (arXiv 2006.02924). Changes the maths."""
    fusion_megabytes: float | None = None
    """Horovod: gradients found ready at the same time are exchanged together, up to so many MiB; 0: each alone; none:
    Horovod's own choice, 128."""
    cycle_milliseconds: float | None = None
    """Horovod: how often it looks for gradients that are ready; 0: without a pause; none: Horovod's own choice, 1."""
    autotune: bool = False
    """Horovod: let it try fusion thresholds and cycle times while it trains, and keep the best."""
    hierarchical_all_reduce: bool = False
    """Horovod over NCCL: sum gradients within each machine first, then between machines."""
    trace: bool = False
    """Horovod: have it write its timeline beside the record (`.trace`, for chrome://tracing or Perfetto), and note the
    sums of its phases in the record."""
    check_replicas: bool = False
    """After every step compare all parameters of all replicas bit by bit, and stop at the first difference."""
    loader_workers: int = 0
    """PyTorch: processes of a DataLoader that prepare each worker's batches ahead; 0: taken from memory as needed."""
    updates: Literal["asynchronous", "synchronous"] = "asynchronous"
    """tf_parameter_server: asynchronous applies each worker's gradients as they come, of `--batch` rows of its own in
    either scaling; synchronous waits for those of all workers, as every other strategy does."""

    def __post_init__(self) -> None:
        """Raises UserError for any value that can't be meant."""
        for field in dataclasses.fields(self):
            choices, value = get_args(field.type), getattr(self, field.name)
            if get_origin(field.type) is Literal and value not in choices:
                option = "--" + field.name.replace("_", "-")
                raise UserError(f"{option} {value}: choose one of {', '.join(choices)}.")
        if len(self.dimensions) < 2 or min(self.dimensions) < 1:
            raise UserError(
                f"--dimensions {self.dimensions}: give an input and an output width at least, all positive."
            )
        counts = ("batch", "steps", "warmup_steps", "window_steps", "threads", "decay_steps")
        counts = (*counts, "steps_per_call", "parameter_servers", "micro_batches")
        for name in counts:
            if getattr(self, name) < 1:
                raise UserError(f"--{name.replace('_', '-')} {getattr(self, name)}: give a whole number above 0.")
        if self.workers is not None and self.workers < 1:
            raise UserError(f"--workers {self.workers}: give a whole number above 0.")
        if min(self.seed, self.checkpoint_steps, self.loader_workers) < 0:
            raise UserError("--seed, --checkpoint-steps and --loader-workers can't be negative: give 0 or more.")
        if self.bucket_megabytes is not None and not 0 < self.bucket_megabytes < float("inf"):
            raise UserError(f"--bucket-megabytes {self.bucket_megabytes}: give a number above 0.")
        for name in ("fusion_megabytes", "cycle_milliseconds"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise UserError(f"--{name.replace('_', '-')} {value}: give 0 or more.")
        if self.check_replicas and not self.exchange:
            raise UserError("--check-replicas with --no-exchange: replicas that don't exchange differ; leave one out.")
        if not 0 <= self.momentum < 1:
            raise UserError(f"--momentum {self.momentum}: give a number from 0 up to, but below, 1.")
        rates = [self.learning_rate, self.weight_decay, self.final_learning_rate or 0.0]
        if not all(0 <= rate < float("inf") for rate in rates):
            raise UserError("A learning rate or the weight decay is negative or not finite: give 0 or more.")
        if not 0 < self.deadline_seconds <= 86400:
            raise UserError(f"--deadline-seconds {self.deadline_seconds}: give seconds, more than 0 and at most 86400.")
        if self.warmup_steps >= self.steps:
            raise UserError(
                f"--steps {self.steps} leaves no step to measure after --warmup-steps {self.warmup_steps}: "
                "raise the first or lower the second."
            )
        if self.checkpoint_steps and self.checkpoint is None:
            raise UserError("--checkpoint-steps needs a file to save in: add --checkpoint FILE.")


PRESETS: dict[str, Config] = {
    "digits": Config(),
    "mnist": Config(preset="mnist", dimensions=(784, 128, 64, 10)),
    "pathway": Config(
        preset="pathway",
        dimensions=(1024, 256, 256, 256, 32),
        activation="tanh",
        bias=False,
        final_learning_rate=0.03,
    ),
    "wide": Config(
        preset="wide",
        dimensions=(2048, 2048, 2048, 10),
        scaling="weak",
        batch=512,
        learning_rate=0.01,
        steps=30,
        warmup_steps=5,
        window_steps=5,
    ),
}


_TF_LOOPS = ("tf_one_device", "tf_mirrored", "tf_central_storage", "tf_multi_worker_mirrored", "horovod_tensorflow")
_TF_REPLICAS = ("tf_mirrored", "tf_multi_worker_mirrored", "tf_keras_mirrored")
_TORCH_REPLICAS = ("torch_ddp", "torch_hook_ddp", "torch_sync_sgd", "torch_zero", "torch_lightning_ddp")
_TORCH_PROCESSES = (*_TORCH_REPLICAS, "torch_fsdp", "torch_model_parallel", "torch_tensor_parallel")

MODEL_PARALLEL = {"torch_model_parallel", "torch_tensor_parallel"}
"""Strategies whose workers each compute a part of the model, on the whole batch."""

KERAS_FIT = {"tf_keras_mirrored": "tf_mirrored", "horovod_keras": "horovod_tensorflow"}
"""Strategies that train by Keras's fit and its SGD, and for each the one that distributes alike by its own loop."""

OPTIONS_OF_SOME: dict[str, tuple[str, ...]] = {
    "jit_compile": (*_TF_LOOPS, "tf_keras_mirrored"),
    "steps_per_call": _TF_LOOPS,
    "input": _TF_LOOPS,
    "parameter_servers": ("tf_parameter_server",),
    "updates": ("tf_parameter_server",),
    "backend": (*_TORCH_PROCESSES, "horovod_*"),
    "bucket_megabytes": ("torch_ddp", "torch_hook_ddp"),
    "static_graph": ("torch_ddp",),
    "bucket_views": ("torch_ddp",),
    "gradient_hook": ("torch_ddp",),
    "bf16_autocast": ("torch_single", "torch_data_parallel", *_TORCH_REPLICAS, "torch_fsdp", "horovod_torch"),
    "micro_batches": ("torch_model_parallel",),
    "compression": ("horovod_*",),
    "adasum": ("horovod_*",),
    "fusion_megabytes": ("horovod_*",),
    "cycle_milliseconds": ("horovod_*",),
    "autotune": ("horovod_*",),
    "hierarchical_all_reduce": ("horovod_*",),
    "trace": ("horovod_*",),
    "check_replicas": (*_TORCH_REPLICAS, "horovod_*", *_TF_REPLICAS),
    "loader_workers": ("torch_single", "torch_data_parallel", *_TORCH_REPLICAS, "torch_fsdp", "horovod_torch"),
}
"""Fields of Config that only some strategies act on, and patterns (fnmatch) of those strategies' names."""


def has_option(strategy: str, name: str) -> bool:
    """Whether the strategy acts on this field of Config."""
    return any(fnmatchcase(strategy, pattern) for pattern in OPTIONS_OF_SOME.get(name, ["*"]))


def check_options(config: Config, strategy: str) -> None:
    """Raises UserError when an option that differs from its default has no effect on the strategy, or no meaning."""
    for field in dataclasses.fields(config):
        if getattr(config, field.name) != field.default and not has_option(strategy, field.name):
            raise UserError(
                f"--{field.name.replace('_', '-')} has no effect on {strategy}: leave it out, or choose one of "
                f"{', '.join(OPTIONS_OF_SOME[field.name])}."
            )
    if strategy in KERAS_FIT:
        _refuse_what_keras_cannot(config, instead=KERAS_FIT[strategy])
    if strategy in MODEL_PARALLEL and not config.exchange:
        raise UserError(
            f"--no-exchange: the parts of {strategy}'s model can't compute without each other; leave it out."
        )
    is_horovod = strategy.startswith("horovod_")
    if config.backend == "mpi" and strategy != "torch_sync_sgd" and not is_horovod:
        raise UserError(f"--backend mpi: {strategy} doesn't use MPI; choose gloo or nccl, or torch_sync_sgd.")
    if config.backend == "nccl" and is_horovod:
        raise UserError("--backend nccl: Horovod takes NCCL by itself, where its build has it; choose gloo or mpi.")
    if config.adasum and config.backend != "mpi":
        raise UserError("--adasum: between CPUs Horovod has Adasum over MPI alone; add --backend mpi.")


def _refuse_what_keras_cannot(config: Config, instead: str) -> None:
    """Raises UserError for options with which Keras's SGD doesn't follow torch's formula, the contract's.

    It multiplies a gradient by the learning rate on its way into the momentum, where a later rate doesn't reach it;
    its weight decay shrinks the weights at once and never enters the momentum. `instead` is the strategy to use.
    """
    if config.momentum and config.weight_decay:
        raise UserError(
            "Keras's SGD keeps weight decay out of the momentum, where torch's formula has it: leave --momentum or "
            f"--weight-decay out, or use {instead}."
        )
    changes = config.final_learning_rate not in (None, config.learning_rate)
    if config.momentum and (changes or not config.learning_rate):
        raise UserError(
            "Keras's SGD keeps its momentum multiplied by the learning rate, so it follows torch's formula only where "
            "that is constant and above 0: leave --momentum out, give --final-learning-rate and --learning-rate the "
            f"same value above 0, or use {instead}."
        )


def check_layout(config: Config, strategy: str, world_size: int) -> None:
    """Raises UserError when the model's layers, or the batch, can't be divided among so many parts of one model."""
    layers = len(config.dimensions) - 1
    if config.adasum and world_size & (world_size - 1):
        raise UserError(f"--adasum with {world_size} workers: Horovod combines them in pairs; use 1, 2, 4 or 8.")
    if strategy == "torch_model_parallel":
        if world_size > layers:
            raise UserError(
                f"{world_size} pipeline stages for {layers} layers: use --workers {layers} or fewer, or more layers."
            )
        rows = global_batch(config, world_size, one_model=True)
        if rows % config.micro_batches:
            raise UserError(
                f"A batch of {rows} rows doesn't divide into {config.micro_batches} micro-batches: "
                "give --micro-batches a divisor of it."
            )
    if strategy == "torch_tensor_parallel":
        for layer in range(layers):
            axis = tensor_parallel_axis(config, layer)
            width = config.dimensions[layer + axis]
            if width % world_size:
                raise UserError(
                    f"Layer {layer} is split by its {width} {('inputs', 'outputs')[axis]}, which {world_size} workers "
                    "don't divide: use a number of workers that does, or other --dimensions."
                )


def tensor_parallel_axis(config: Config, layer: int) -> int:
    """Which axis of the layer's weights (inputs, outputs) tensor parallelism splits: 0, its inputs, or 1, its outputs.

    They take turns, and the last layer is split by its inputs, so that every worker gets all logits.
    """
    last = len(config.dimensions) - 2
    return (last - layer) % 2


def same_maths(config: Config) -> bool:
    """Whether the run computes what the oracle does: no option rounds or approximates on purpose."""
    return config.gradient_hook == config.compression == "none" and not (config.bf16_autocast or config.adasum)


def is_synchronous(config: Config, strategy: str) -> bool:
    """Whether every step of the strategy sees the gradients of all workers, so that it follows the oracle."""
    return strategy != "tf_parameter_server" or config.updates == "synchronous"


def parse_command_line(description: str, arguments: list[str] | None = None) -> Config:
    """The Config that the command line asks for: the named preset's values, overridden by every option given.

    `description` heads the help text. Raises UserError for an unknown preset or a value that can't be meant, and
    SystemExit for `--help` and for options that don't exist.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    default = PRESETS[_preset_named_in(arguments)]
    return tyro.cli(Config, description=description, default=default, args=arguments)


def from_record(values: Mapping[str, object]) -> Config:
    """The Config whose fields a record's `config` holds. Raises UserError when they don't make one."""
    paths = ("data_dir", "checkpoint", "record")
    try:
        restored = {name: Path(value) if name in paths and value else value for name, value in values.items()}
        return Config(**restored | {"dimensions": tuple(values["dimensions"])})
    except (TypeError, KeyError) as error:
        raise UserError(f"A record's config is damaged ({error}): delete the record and run its cell again.") from error


def to_arguments(config: Config) -> list[str]:
    """The command-line options that `parse_command_line` turns back into `config`: what differs from its preset."""
    preset = PRESETS[config.preset]
    arguments = ["--preset", config.preset]
    for field in dataclasses.fields(Config):
        value = getattr(config, field.name)
        option = "--" + field.name.replace("_", "-")
        if value == getattr(preset, field.name):
            continue
        if isinstance(value, bool):
            arguments.append(option if value else "--no-" + field.name.replace("_", "-"))
        elif isinstance(value, tuple):
            arguments += [option, *map(str, value)]
        else:
            arguments += [option, str(value)]
    return arguments


def local_batch(config: Config, world_size: int) -> int:
    """Rows per step of each of `world_size` workers.

    Raises UserError when the global batch doesn't divide, with the nearest sizes that do.
    """
    if config.scaling == "weak":
        return config.batch
    if config.batch % world_size:
        below = config.batch - config.batch % world_size
        sizes = f"{below} or {below + world_size}" if below else f"{world_size}"
        raise UserError(
            f"A global batch of {config.batch} doesn't divide by {world_size} workers: use --batch {sizes}, "
            "or another number of workers."
        )
    return config.batch // world_size


def global_batch(config: Config, world_size: int, one_model: bool = False) -> int:
    """Rows per step of all workers together.

    With `one_model` the workers hold parts of one model, and none has rows of its own. Raises UserError as
    `local_batch` does.
    """
    if one_model:
        return config.batch * (world_size if config.scaling == "weak" else 1)
    return local_batch(config, world_size) * world_size


def check_world_size(config: Config, world_size: int, launcher: str) -> None:
    """Raises UserError when the world that `launcher` started isn't the one that `--workers` asks for."""
    if config.workers is not None and config.workers != world_size:
        raise UserError(
            f"--workers {config.workers}, but {launcher} started {world_size}: give both the same number, "
            "or leave --workers out."
        )


def _preset_named_in(arguments: list[str]) -> str:
    name = "digits"
    for position, argument in enumerate(arguments):
        option, _, value = argument.partition("=")
        if option == "--preset":
            # As with every other option, the last one counts.
            name = value or "".join(arguments[position + 1 : position + 2])
            if name not in PRESETS:
                raise UserError(f"There is no preset named '{name}': choose one of {', '.join(PRESETS)}.")
    return name
