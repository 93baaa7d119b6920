"""What the updates of a user's own file were made of: one mark for each number of workers."""

import dataclasses
import math
import re
import secrets
import statistics
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
from threadpoolctl import threadpool_limits

from common.check.assignment import split
from common.check.training_file import MPIRUN, like_of
from common.check.world import CLOCKED_FROM, REPORTED, World
from common.contract import dataset, mistakes, model, reading
from common.contract.model import State
from common.contract.reading import Reading, Trained
from common.contract.recipe import Coefficient, TensorRecipe
from common.contract.rows import Share, local_batch
from common.contract.task import Task
from common.contract.work import Recipe
from common.declarations.strategy import ring_all_reduce
from common.errors import LaunchFailedError, UserError
from common.launching import executor, exit_cause
from common.paths import ROOT

FIRST_UPDATES, LATER_UPDATES = 3, 3
"""Whose recipes are read: the first ones, and others that are drawn when training is over."""

_OTHER_START = 1e-2
"""A residual of the first update above this, where later ones have none, tells that it began with other weights."""

_LEAST_SENT = 0.45
"""Fewer bytes than this share of an all-reduce's are no exchange of gradients, not even of 16 bits."""


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """What files are held to. Without these options: SGD on digits with 64 rows in each step."""

    workers: tuple[int, ...] = (1, 2, 4)
    """Numbers of workers to start the file with."""
    launcher: str | None = None
    """What starts it: a strategy's launcher, mpirun, processes (each with RANK, WORLD_SIZE, MASTER_ADDR and
    MASTER_PORT), or python, a single process that gets the rows of all workers; none: as its imports suggest."""
    rows: Literal["share", "whole"] = "share"
    """Each process gets its worker's share of a batch, or all get the whole one, to divide the model."""
    batch: int = 64
    """Rows per step of all workers together."""
    steps: int = 24
    """Steps to train."""
    learning_rate: float = 0.1
    """SGD's learning rate."""
    momentum: float = 0.5
    """SGD's momentum."""
    weight_decay: float = 0.001
    """SGD's weight decay."""
    seed: int | None = None
    """Seed of weights and rows; none: another one for each launch, which nobody can foresee."""
    deadline_seconds: float = 60.0
    """A launch is ended after this time."""
    memory_gigabytes: float = 8.0
    """As much may the processes of a launch take together."""
    processes: int = 64
    """As many may a launch have at a time."""
    count_bytes: bool = True
    """With --no-count-bytes a file may exchange by shared memory, where no bytes are sent."""

    def task(self) -> Task:
        """What is trained in one launch. Raises UserError for a value that can't be meant."""
        if self.steps < FIRST_UPDATES + LATER_UPDATES + CLOCKED_FROM:
            raise UserError(f"--steps {self.steps}: give {FIRST_UPDATES + LATER_UPDATES + CLOCKED_FROM} at least.")
        task = Task(
            batch=self.batch,
            steps=self.steps,
            warmup_steps=CLOCKED_FROM,
            window_steps=2,
            learning_rate=self.learning_rate,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            seed=secrets.randbelow(2**31) if self.seed is None else self.seed,
            deadline_seconds=self.deadline_seconds,
        )
        for workers in self.workers:
            local_batch(task, workers)
        return task


@dataclass(frozen=True)
class Mark:
    """What one launch of a file was found to be."""

    file: str
    workers: int
    verdict: Literal["right", "wrong", "failed"]
    sentences: tuple[str, ...]
    """What is wrong, each with its remedy; or why it failed."""
    like: str = ""
    """The strategy of this suite that the file resembles."""
    reading: Reading | None = None
    samples_per_second: float = math.nan
    beside: float = math.nan
    """Samples per second of this suite's strategy of the same kind."""
    bytes_per_step: float = math.nan
    formula_bytes_per_step: float = math.nan
    """Of an all-reduce of the gradients."""

    @property
    def shares(self) -> list[float]:
        """How often each worker's gradient counted, the median over all that was read; empty: nothing was."""
        by_worker = zip(*(each.shares for each in self._tensors), strict=True)
        return [_median(own) for own in by_worker]

    @property
    def velocity(self) -> float:
        """How often the update before counted, likewise; NaN: it isn't told."""
        return _median([each.velocity for each in self._tensors])

    @property
    def decay(self) -> float:
        """How often the weights counted, likewise."""
        return _median([each.decay for each in self._tensors])

    @property
    def residual(self) -> float:
        """The largest part of an update that the right counts leave."""
        return self.reading.residual if self.reading else math.nan

    @property
    def _tensors(self) -> list[TensorRecipe]:
        """Those of worker 0's weights, since replicas that differ have each shares of their own."""
        steps = self.reading.steps if self.reading else ()
        return [tensor for step in steps if step.replica == 0 for tensor in step.tensors.values()]


def _median(coefficients: Iterable[Coefficient | None]) -> float:
    return statistics.median([each.value for each in coefficients if each] or [math.nan])


def mark(path: Path, workers: int, assignment: Assignment, log: Path) -> Mark:
    """Start the file once with so many workers, and say what it did; its output is in the log."""
    task, name = dataclasses.replace(assignment.task(), workers=workers), path.name
    try:
        like, launcher = like_of(path.read_text(encoding="utf-8"), assignment.launcher)
    except (SyntaxError, ValueError) as error:
        line = f" in line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        return Mark(name, workers, "failed", (f"It doesn't parse{line}: {str(error).partition(' (')[0]}.",))
    world = World(
        file=str(path.resolve()),
        workers=workers,
        launcher=launcher,
        like=like.name,
        task=task,
        is_whole=assignment.rows == "whole",
        memory_gigabytes=assignment.memory_gigabytes,
        most_processes=assignment.processes,
    )
    try:
        losses, weights, seconds, sent = _reported(world, log)
    except LaunchFailedError as error:
        return Mark(name, workers, "failed", (str(error),))
    recipes = read(world, losses, weights, like.family.remedies)
    formula = ring_all_reduce(model.parameter_bytes(task), workers, like.options()).bytes_per_step or 0.0
    sentences = list(recipes.mistakes)
    is_counted = assignment.count_bytes and launcher != MPIRUN.name and not world.is_whole and world.process_count > 1
    if is_counted and sent < _LEAST_SENT * formula:
        sentences.append(
            f"It sent {sent:,.0f} bytes in a step, and an all-reduce of the gradients sends {formula:,.0f}: workers "
            "don't exchange gradients by the network. Let them, or give --no-count-bytes for shared memory."
        )
    return Mark(
        file=name,
        workers=workers,
        verdict="wrong" if sentences else "right",
        sentences=tuple(sentences),
        like=like.name,
        reading=recipes,
        samples_per_second=task.batch / float(seconds),
        bytes_per_step=float(sent),
        formula_bytes_per_step=formula,
    )


def _reported(world: World, log: Path) -> list[np.ndarray]:
    """Start the file; return losses, weights, and of a step the seconds and the bytes that were sent.

    Raises LaunchFailedError, with the reason, where it doesn't end well.
    """
    deadline_seconds = world.task.deadline_seconds
    with tempfile.TemporaryDirectory(prefix="lockstep-", ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        (folder / "world.json").write_bytes(msgspec.json.encode(world))
        status = executor.start(["-m", "common.check.world", str(folder)], ROOT, log, deadline_seconds, {})
        if status:
            raise LaunchFailedError(_reason(status, deadline_seconds, log))
        with np.load(folder / REPORTED) as kept:
            return [kept[name] for name in ("losses", "weights", "seconds", "sent")]


def read(world: World, losses: np.ndarray, weights: np.ndarray, remedies: Mapping[str, str]) -> Reading:
    """Read the recipes of what a file reported: losses, (processes, steps), and weights, (processes, steps, elements).

    `remedies` are the framework's own words.
    """
    task, shapes = world.task, model.parameter_shapes(world.task)
    drawn = 1 + np.random.default_rng().choice(np.arange(FIRST_UPDATES, task.steps - 1), LATER_UPDATES, replace=False)
    needed = {*range(FIRST_UPDATES + 1), *(step + around for step in drawn.tolist() for around in (-1, 0, 1))}

    def after(step: int) -> list[State]:
        if step == 0:
            return [model.initial_weights(task)] * len(weights)
        # Equal ones are one, so that they are read once.
        unique = {own.tobytes(): dict(zip(shapes, split(own, shapes), strict=True)) for own in weights[:, step - 1]}
        return [unique[own.tobytes()] for own in weights[:, step - 1]]

    trained = Trained(
        task,
        Recipe.WHOLE_BATCH if world.is_whole else Recipe.AVERAGE,
        world.workers,
        Share(task.batch, 0, task.batch),
        0,
        [[loss if math.isfinite(loss) else None for loss in own] for own in losses.tolist()],
    )
    evidence = {step: after(step) for step in sorted(needed) if step <= task.steps}
    data = dataset.load(task)
    with threadpool_limits(1):
        recipes, updates = reading.read(trained, evidence, data)
        first = [tensor.residual for step in recipes.steps if step.step == 0 for tensor in step.tensors.values()]
        began = ""
        if max(first) > _OTHER_START:
            later, of_later = reading.read(trained, {step: evidence[step] for step in evidence if step}, data)
            if max(tensor.residual for tensor in later.tensors) < _OTHER_START:
                same = "" if 1 in later.apart else ", which are the same on all workers"
                began = f"Its weights before the first step weren't the assignment's{same}. "
                began += "Begin with assignment.load or assignment.weights, on every worker."
                recipes, updates = later, of_later
    sentences = mistakes.named(trained, recipes, updates, remedies)
    return dataclasses.replace(recipes, mistakes=tuple(filter(None, (began, *sentences))))


def _reason(status: int, deadline_seconds: float, log: Path) -> str:
    """Why it failed: our own sentence, with the first error that Python printed where that is the cause."""
    text = log.read_text(encoding="utf-8", errors="replace")
    reason = exit_cause.read(status, deadline_seconds, text).reason or "It failed."
    errors = re.findall(r"^(?:\[rank\d+\]: )?((?:\w+\.)*\w+(?:Error|Exception|Interrupt)\b.*)$", text, re.MULTILINE)
    is_cause = errors and "ended with status" in reason
    return f"{reason.rstrip('.')}: {errors[0].strip()[:200]}" if is_cause else reason
