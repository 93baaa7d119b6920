"""What the updates of a user's own training were made of: one mark for each launch of a file, or for watched steps."""

import dataclasses
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from threadpoolctl import threadpool_limits

from common.check.assignment import split
from common.check.training_file import MPIRUN, like_of, reader_of_evidence
from common.check.world import LATER_UPDATES, REPORTED, Assignment, World
from common.contract import dataset, mistakes, model, reading
from common.contract.evidence import FIRST_STEPS
from common.contract.model import State
from common.contract.reading import Reading, Trained
from common.contract.recipe import Coefficient
from common.contract.rows import Share
from common.contract.work import Recipe
from common.declarations.strategy import ring_all_reduce
from common.errors import LaunchFailedError
from common.launching import executor, exit_cause
from common.launching.launch import python_for
from common.paths import ROOT

_OTHER_START = 1e-2
"""A residual of the first update above this and rounding's, where later ones have none, tells of other weights."""

_LEAST_SENT = 0.45
"""Fewer bytes than this share of an all-reduce's are no exchange of gradients, not even of 16 bits."""


@dataclass(frozen=True)
class Mark:
    """What one launch of a file was found to be, or a training by the evidence of its watched steps."""

    file: str
    workers: int
    verdict: Literal["right", "wrong", "failed"]
    sentences: tuple[str, ...]
    """What is wrong, each with its remedy; or why it failed."""
    like: str = ""
    """The strategy of this suite that the file resembles."""
    reading: Reading | None = None
    shares: tuple[float, ...] = ()
    """How often each batch's mean gradient counted, the median over all that was read; empty: nothing was."""
    velocity: float = math.nan
    """How often the update before counted, likewise; NaN: it isn't told."""
    decay: float = math.nan
    """How often the weights counted, likewise."""
    residual: float = math.nan
    """The largest part of an update that the right counts leave."""
    samples_per_second: float = math.nan
    beside: float = math.nan
    """Samples per second of this suite's strategy of the same kind."""
    bytes_per_step: float = math.nan
    formula_bytes_per_step: float = math.nan
    """Of an all-reduce of the gradients."""


def _marked(file: str, workers: int, reading: Reading, sentences: tuple[str, ...], **measured: Any) -> Mark:  # noqa: ANN401
    """The mark of what was read: of worker 0's weights, since replicas that differ have each shares of their own."""
    tensors = [tensor for step in reading.steps if step.replica == 0 for tensor in step.tensors.values()]
    return Mark(
        file=file,
        workers=workers,
        verdict="wrong" if sentences else "right",
        sentences=sentences,
        reading=reading,
        shares=tuple(_median(own) for own in zip(*(each.shares for each in tensors), strict=True)),
        velocity=_median(each.velocity for each in tensors),
        decay=_median(each.decay for each in tensors),
        residual=reading.residual,
        **measured,
    )


def _median(coefficients: Iterable[Coefficient | None]) -> float:
    return statistics.median([each.value for each in coefficients if each] or [math.nan])


def mark_evidence(evidence: Path, model: str, loss: str) -> Mark:
    """Read the evidence of watched steps in the environment of their framework, and say what it tells.

    `model` and `loss` are MODULE:FUNCTION there. Exits as that program does where it can't read them, and says why.
    """
    reader = reader_of_evidence()
    with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
        kept = Path(folder, "reading.json")
        command = [python_for(reader), "-m", str(reader.family.watched), evidence.resolve(), model, loss, kept]
        if status := subprocess.run(command, cwd=ROOT).returncode:
            sys.exit(status)
        ranks, found = msgspec.json.decode(kept.read_bytes(), type=tuple[int, Reading])
    return _marked(evidence.resolve().name, ranks, found, found.mistakes)


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
        assignment=assignment,
    )
    try:
        losses, weights, seconds, sent = _reported(world, log)
    except LaunchFailedError as error:
        return Mark(name, workers, "failed", (str(error),))
    found = read(world, losses, weights, like.family.remedies)
    formula = ring_all_reduce(model.parameter_bytes(task), workers, like.options()).bytes_per_step or 0.0
    sentences = found.mistakes
    is_counted = assignment.count_bytes and launcher != MPIRUN.name and not world.is_whole and world.process_count > 1
    if is_counted and sent < _LEAST_SENT * formula:
        sentences += (
            f"It sent {sent:,.0f} bytes in a step, and an all-reduce of the gradients sends {formula:,.0f}: workers "
            "don't exchange gradients by the network. Let them, or give --no-count-bytes for shared memory.",
        )
    rate = task.batch / float(seconds)
    measured = {"samples_per_second": rate, "bytes_per_step": float(sent), "formula_bytes_per_step": formula}
    return _marked(name, workers, found, sentences, like=like.name, **measured)


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
            said = log.read_text(encoding="utf-8", errors="replace")
            raise LaunchFailedError(exit_cause.read(status, deadline_seconds, said).reason or "It failed.")
        with np.load(folder / REPORTED) as kept:
            return [kept[name] for name in ("losses", "weights", "seconds", "sent")]


def read(world: World, losses: np.ndarray, weights: np.ndarray, remedies: Mapping[str, str]) -> Reading:
    """Read the recipes of what a file reported: losses, (processes, steps), and weights, (processes, steps, elements).

    `remedies` are the framework's own words.
    """
    task, shapes = world.task, model.parameter_shapes(world.task)
    drawn = 1 + np.random.default_rng().choice(np.arange(FIRST_STEPS, task.steps - 1), LATER_UPDATES, replace=False)
    needed = {*range(FIRST_STEPS + 1), *(step + around for step in drawn.tolist() for around in (-1, 0, 1))}

    def after(step: int) -> list[State]:
        if step == 0:
            return [model.initial_weights(task)] * len(weights)
        # Equal ones are one, so that they are read once.
        unique = {own.tobytes(): dict(zip(shapes, split(own, shapes), strict=True)) for own in weights[:, step - 1]}
        return [unique[own.tobytes()] for own in weights[:, step - 1]]

    recipe, rows = Recipe.WHOLE_BATCH if world.is_whole else Recipe.AVERAGE, Share(task.batch, 0, task.batch)
    reported = [[loss if math.isfinite(loss) else None for loss in own] for own in losses.tolist()]
    trained = Trained(task, recipe, world.workers, rows, 0, reported)
    evidence = {step: after(step) for step in sorted(needed) if step <= task.steps}
    data = dataset.load(task)
    with threadpool_limits(1):
        found, updates = reading.read(trained, evidence, data)
        first = [tensor for step in found.steps if step.step == 0 for tensor in step.tensors.values()]
        if any(tensor.residual > max(_OTHER_START, tensor.floor) for tensor in first):
            later, of_later = reading.read(trained, {step: evidence[step] for step in evidence if step}, data)
            if max(tensor.residual for tensor in later.tensors) < _OTHER_START:
                same = "" if 1 in later.apart else ", which are the same on all workers"
                began = f"Its weights before the first step weren't the assignment's{same}. "
                began += "Begin with assignment.load or assignment.weights, on every worker."
                sentences = mistakes.named(trained, later, of_later, remedies)
                return dataclasses.replace(later, mistakes=(began, *sentences))
    return dataclasses.replace(found, mistakes=mistakes.named(trained, found, updates, remedies))
