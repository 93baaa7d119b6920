"""The task that all strategies are given, and the command line that each makes of it and of its own options."""

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import tyro

from common.command_line import options_of
from common.declarations.catalogue import strategies
from common.declarations.strategy import Options, Strategy, check_choices, option_name
from common.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is computed and how it is measured, by any strategy. The defaults are those of `--preset`."""

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
    """Momentum of SGD: the velocity is this times the last one plus the gradient, and the step is the rate times it."""
    weight_decay: float = 0.0
    """Weight decay of SGD: this times the weights is added to the gradient, before the momentum."""
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

    def __post_init__(self) -> None:
        """Raises UserError for any value that can't be meant."""
        check_choices(self)
        if len(self.dimensions) < 2 or min(self.dimensions) < 1:
            raise UserError(
                f"--dimensions {self.dimensions}: give an input and an output width at least, all positive."
            )
        counts = ("batch", "steps", "warmup_steps", "window_steps", "threads", "decay_steps")
        for name in counts:
            if getattr(self, name) < 1:
                raise UserError(f"{option_name(name)} {getattr(self, name)}: give a whole number above 0.")
        if self.workers is not None and self.workers < 1:
            raise UserError(f"--workers {self.workers}: give a whole number above 0.")
        if min(self.seed, self.checkpoint_steps) < 0:
            raise UserError("--seed and --checkpoint-steps can't be negative: give 0 or more.")
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


PRESETS: dict[str, Task] = {
    "digits": Task(),
    "mnist": Task(preset="mnist", dimensions=(784, 128, 64, 10)),
    "pathway": Task(
        preset="pathway",
        dimensions=(1024, 256, 256, 256, 32),
        activation="tanh",
        bias=False,
        final_learning_rate=0.03,
    ),
    "wide": Task(
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


@cache
def command_line_type(strategy: Strategy) -> type:
    """What tyro makes the strategy's command line of: the fields of every task, and those of its own options.

    Raises UserError where an option has the name of a task's field.
    """
    shared = {each.name for each in dataclasses.fields(Task)} & {
        each.name for each in dataclasses.fields(strategy.options)
    }
    if shared:
        raise UserError(
            f"{strategy.options.__name__} of {strategy.name} declares {', '.join(sorted(shared))}, which every "
            "task has: give the option another name."
        )
    parts = [
        ("task", tyro.conf.OmitArgPrefixes[Task], dataclasses.field(default=PRESETS["digits"])),
        ("strategy", tyro.conf.OmitArgPrefixes[strategy.options], dataclasses.field(default=strategy.options())),
    ]
    return dataclasses.make_dataclass("CommandLine", parts, frozen=True)


def parse_command_line(
    strategy: Strategy, description: str, arguments: Sequence[str] | None = None
) -> tuple[Task, Options]:
    """The task and the strategy's options that the command line asks for.

    The task has the named preset's values, overridden by every option given. `description` heads the help text. Raises
    UserError for an unknown preset, a value that can't be meant, or an option that another strategy has, and SystemExit
    for `--help` and for options that nobody has.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    default = command_line_type(strategy)(PRESETS[_preset_named_in(arguments)], strategy.options())
    _refuse_options_of_others(strategy, arguments)
    parsed = tyro.cli(command_line_type(strategy), description=description, default=default, args=arguments)
    return parsed.task, parsed.strategy


def _refuse_options_of_others(strategy: Strategy, arguments: Sequence[str]) -> None:
    own = {*option_names(Task), *option_names(strategy.options)}
    for argument in arguments:
        name = argument.partition("=")[0].replace("_", "-")
        if not name.startswith("--") or name in own:
            continue
        # Every folder's declarations are read only here, where a worker that starts as it should never comes.
        if owners := [other.name for other in strategies().values() if name in option_names(other.options)]:
            raise UserError(
                f"{name} has no effect on {strategy.name}: leave it out, or choose one of {', '.join(owners)}."
            )


@cache
def option_names(fields: type) -> frozenset[str]:
    """The options that tyro makes of this dataclass: `--name` of each field, and `--no-name` of each that is a bool."""
    names = {option_name(each.name) for each in dataclasses.fields(fields)}
    flags = {option_name(each.name) for each in dataclasses.fields(fields) if isinstance(each.default, bool)}
    return frozenset(names | {name.replace("--", "--no-", 1) for name in flags})


def to_arguments(task: Task, options: Options) -> list[str]:
    """The options that `parse_command_line` turns back into both: what differs from the preset and the defaults."""
    differing = [*options_of(task, PRESETS[task.preset]), *options_of(options, type(options)())]
    return ["--preset", task.preset, *differing]


def task_of(values: Mapping[str, object]) -> Task:
    """The Task whose fields a record's `task` holds. Raises UserError when they don't make one."""
    paths = ("data_dir", "checkpoint", "record")
    try:
        restored = {name: Path(value) if name in paths and value else value for name, value in values.items()}
        return Task(**restored | {"dimensions": tuple(values["dimensions"])})
    except (TypeError, KeyError) as error:
        raise UserError(f"A record's task is damaged ({error}): delete the record and run its launch again.") from error


def maths_of(task: Task) -> Task:
    """`task` with everything at its preset's that decides only how it was measured, or by how many workers."""
    preset = PRESETS[task.preset]
    measured = ("scaling", "batch", "steps", "warmup_steps", "window_steps", "workers", "threads")
    measured += ("device", "deadline_seconds", "checkpoint", "checkpoint_steps", "record")
    return dataclasses.replace(task, **{name: getattr(preset, name) for name in measured})


def check_world_size(task: Task, world_size: int, launcher: str) -> None:
    """Raises UserError when the world that `launcher` started isn't the one that `--workers` asks for."""
    if task.workers is not None and task.workers != world_size:
        raise UserError(
            f"--workers {task.workers}, but {launcher} started {world_size}: give both the same number, "
            "or leave --workers out."
        )


def _preset_named_in(arguments: Sequence[str]) -> str:
    name = "digits"
    for position, argument in enumerate(arguments):
        option, _, value = argument.partition("=")
        if option == "--preset":
            # As with every other option, the last one counts.
            name = value or "".join(arguments[position + 1 : position + 2])
            if name not in PRESETS:
                raise UserError(f"There is no preset named '{name}': choose one of {', '.join(PRESETS)}.")
    return name
