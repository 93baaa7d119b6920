"""Whether every launch computed what it should: its updates by their recipe, its losses beside the float64 oracle."""

import dataclasses
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from common.contract import model, oracle_cache
from common.contract.model import State, Trajectory
from common.contract.oracle import LOSS_TOLERANCE, loss_deviation
from common.contract.reading import Reading
from common.contract.recipe import Coefficient
from common.contract.rows import Piece
from common.contract.task import Task, maths_of
from common.declarations.arguments import to_arguments
from common.declarations.strategy import Options, name_of
from common.errors import UserError
from common.records.evidence import reading_of
from common.records.files import RUN_AGAIN
from common.records.training import Record

FOLLOWS, DEVIATES, NOT_COMPARED = "follows", "deviates", "not compared"
ASYNCHRONOUS = "asynchronous"
OTHER_MATHS = "other maths"
"""The verdict on a launch with an option that rounds or approximates on purpose, wherever its losses are."""

REASONS = {
    DEVIATES: "for not following the oracle",
    OTHER_MATHS: "for computing other maths",
    ASYNCHRONOUS: "for asynchronous updates",
    NOT_COMPARED: "for launches that couldn't be compared with the oracle",
}
"""By the verdict on one of its launches, why a strategy isn't ranked."""

MOSTLY_FAILED = "for launches that mostly failed"
ALL_REASONS = (*REASONS.values(), MOSTLY_FAILED)
"""Why a strategy isn't ranked, the gravest reason first."""

MOST_OPERATIONS = 2e14
"""An oracle of as many takes some hours on two cores."""
MOST_PARAMETER_BYTES = 2**30
"""In float32; an oracle holds several copies of twice the size."""

CHANGED = "its record isn't the one that the launch left"


@dataclasses.dataclass(frozen=True)
class Certificate:
    """What one launch computed beside what it should. Arrays are per step from `first_step` on."""

    launch: str
    strategy: str
    without_hosts: str
    """The strategy with its label alone, whatever its hosts."""
    hosts: int
    workers: int
    exchange: bool
    preset: str
    scaling: str
    maths: str
    """What of the task decides the maths, the seed among it, as options of the command line."""
    global_batch: int
    seed: int
    first_step: int
    other_maths: str
    """Names of the options by which it computes something else than the oracle on purpose; empty for the same maths."""
    losses: np.ndarray
    expected_examples: int
    examples: int
    verdict: str = NOT_COMPARED
    note: str = ""
    """Why a launch wasn't compared, what is wrong of it, or what its verdict rests on."""
    updates: int = 0
    """How many were read."""
    least_share: float = math.nan
    """The smallest share that a worker's gradient had in any tensor's update; so `largest_share`. NaN: not told."""
    largest_share: float = math.nan
    velocity: float = math.nan
    """How often the update before counted, in the update that tells it best; NaN where none does. So `decay`."""
    decay: float = math.nan
    residual: float = math.nan
    """The largest part of an update that its declared recipe leaves unexplained."""
    rounding: float = math.nan
    """The largest of these over what rounding explains there: above 1 it deviates."""
    loss: float = math.nan
    """Largest relative deviation of a loss: from the oracle's trajectory, or else from the oracle restarted from the
    launch's own weights."""
    oracle_losses: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0))


def compare(records: Mapping[str, Record], folder: Path, changed: Collection[str] = ()) -> list[Certificate]:
    """Every `ok` launch beside what it should compute. `records` are by launch; evidence that is kept is in `folder`.

    Not compared are asynchronous launches of several workers, those without evidence, with evidence that can't be read,
    or whose data aren't here, and the `changed`.
    """
    certificates: list[Certificate] = []
    for launch, record in records.items():
        if record.status != "ok":
            continue
        certificate = _of_launch(launch, record)
        try:
            if launch in changed:
                raise UserError(CHANGED)
            certificates.append(_compared(certificate, record, folder / f"{launch}.json"))
        except UserError as error:
            certificates.append(dataclasses.replace(certificate, note=str(error)))
    return certificates


def deviating(certificates: Sequence[Certificate]) -> list[str]:
    """What doesn't follow its oracle: a name for each strategy, number of workers and preset, with the reason."""
    notes: dict[str, str] = {}
    for each in certificates:
        if each.verdict == DEVIATES:
            workers = "1 worker" if each.workers == 1 else f"{each.workers} workers"
            exchange = "" if each.exchange else " without exchange"
            notes.setdefault(f"{each.strategy} with {workers}{exchange}, {each.preset}", each.note)
    return [f"{name} ({note})" for name, note in notes.items()]


def trusted(records: Mapping[str, Record], folder: Path) -> dict[str, Record]:
    """The records that numbers may rest on: all but those of launches that computed something else than declared."""
    wrong = {each.launch for each in compare(records, folder) if each.verdict == DEVIATES}
    return {launch: record for launch, record in records.items() if launch not in wrong}


def reasons_not_ranked(
    certificates: Sequence[Certificate], records: Mapping[str, Record]
) -> dict[tuple[str, int], str]:
    """Why a strategy isn't ranked with so many workers, by both; empty where it is.

    Ranked is what follows the oracle in each of its launches, most of which ended well.
    """
    ended = Counter((record.name, record.world_size, record.status) for record in records.values() if record.exchange)
    reasons: dict[tuple[str, int], str] = {}
    for each in certificates:
        if not each.exchange:
            continue
        key = each.strategy, each.workers
        applying = [reasons[key]] if reasons.get(key) else []
        if each.verdict in REASONS:
            applying.append(REASONS[each.verdict])
        if ended[*key, "failed"] > ended[*key, "ok"]:
            applying.append(MOSTLY_FAILED)
        reasons[key] = min(applying, key=ALL_REASONS.index, default="")
    return reasons


def trajectory_of(record: Record, with_state: bool = False) -> Trajectory:
    """The oracle of the record's maths, batch and steps, and its final state if asked for.

    Raises UserError where the record's rows aren't those on this machine, where no data can be loaded, or where the
    oracle wouldn't end.
    """
    maths, batch, earlier = maths_of(record.task), record.examples_per_step, tuple(record.earlier_pieces)
    largest = max([batch, *(piece.global_batch for piece in earlier)])
    operations = model.operations(maths) * largest * record.task.steps
    if operations > MOST_OPERATIONS or model.parameter_bytes(maths) > MOST_PARAMETER_BYTES:
        raise UserError(
            f"Its oracle would take {operations:.0e} operations on {model.parameter_bytes(maths):.0e} bytes of "
            f"parameters, of which {MOST_OPERATIONS:.0e} and {MOST_PARAMETER_BYTES:.0e} are tried: launch less."
        )
    if record.data_sha256 and record.data_sha256 != oracle_cache.data_digest(maths):
        raise UserError("The rows of this launch aren't those of the data set on this machine.")
    return _oracle(maths, batch, record.task.steps, with_state, earlier)


@lru_cache(maxsize=16)
def _oracle(maths: Task, batch: int, steps: int, with_state: bool, earlier: tuple[Piece, ...]) -> Trajectory:
    """An oracle of the cache. The last ones are kept, since many launches have the same one."""
    return oracle_cache.of_batch(maths, batch, steps, with_state, earlier)


def final_weights(record: Record, folder: Path) -> State:
    """The weights that the record names, from its `folder` or by their path, without the optimizer's state.

    Raises UserError when there are none that can be read.
    """
    name = str(record.checkpoint)
    # A results folder may have been moved.
    path = folder / (name if (folder / name).exists() else Path(name).name)
    try:
        state = load_file(path)
    except (OSError, SafetensorError) as error:
        raise UserError(
            f"The final weights {path} of {record.strategy} can't be read ({error}): delete its record {RUN_AGAIN}."
        ) from error
    return {name: value for name, value in state.items() if not name.endswith(".momentum")}


def _of_launch(launch: str, record: Record) -> Certificate:
    task = record.task
    return Certificate(
        launch=launch,
        strategy=record.name,
        without_hosts=name_of(record.strategy, record.label),
        hosts=max(1, len(record.hosts)),
        workers=record.world_size,
        exchange=record.exchange,
        preset=task.preset,
        scaling=record.scaling,
        maths=" ".join(to_arguments(maths_of(task), Options())),
        global_batch=record.examples_per_step,
        seed=task.seed,
        first_step=record.first_step,
        other_maths=", ".join(record.other_maths),
        losses=np.array([math.nan if loss is None else loss for loss in record.losses]),
        expected_examples=record.examples_per_step * (task.steps - record.first_step),
        examples=sum(record.examples_by_rank),
    )


def _compared(certificate: Certificate, record: Record, path: Path) -> Certificate:
    """The certificate with its verdict. Raises UserError where nothing can be compared."""
    if record.exchange and not record.synchronous and record.world_size > 1:
        note = (
            "workers don't wait for each other: the weights between one update and the next are in the servers' memory "
            "alone, where nothing reads them one by one"
        )
        return dataclasses.replace(certificate, verdict=ASYNCHRONOUS, note=note)
    if not record.recipe:
        raise UserError("no recipe is declared for what it computes")
    # Evidence that was kept can be read again, and has to be there.
    reading = reading_of(record, path) if record.evidence_sha256 else record.reading
    if reading is None:
        raise UserError("it left no evidence of its updates")
    if not reading.steps:
        raise UserError(reading.reason)
    certificate = _with_recipe(certificate, reading)
    wrong_losses = [*_missing(certificate, record)]
    wrong = [*wrong_losses, *reading.mistakes]
    if model.is_smooth(record.task) and record.exchange and not wrong_losses:
        trajectory = trajectory_of(record)
        deviations = _loss_deviations(record, trajectory)
        left = np.flatnonzero(deviations > LOSS_TOLERANCE)
        if left.size and not wrong:
            wrong.append(f"losses leave the oracle's at step {record.first_step + left[0]}")
        losses = np.array(trajectory.losses)[record.first_step :]
        certificate = dataclasses.replace(certificate, loss=float(deviations.max()), oracle_losses=losses)
    if record.other_maths:
        return dataclasses.replace(certificate, verdict=OTHER_MATHS, note=_miscounted(certificate))
    changed = ", ".join(f"{piece.steps} steps of {piece.global_batch} rows" for piece in record.earlier_pieces)
    note = " ".join(wrong) or (f"its workers changed after {changed}" if changed else "")
    return dataclasses.replace(certificate, verdict=DEVIATES if wrong else FOLLOWS, note=note)


def _with_recipe(certificate: Certificate, reading: Reading) -> Certificate:
    """The certificate with what its updates were made of."""
    tensors, (least, largest) = reading.tensors, reading.shares
    return dataclasses.replace(
        certificate,
        updates=len(reading.steps),
        least_share=least,
        largest_share=largest,
        velocity=_surest([tensor.velocity for tensor in tensors]),
        decay=_surest([tensor.decay for tensor in tensors]),
        residual=reading.residual,
        rounding=max((tensor.declared / tensor.floor for tensor in tensors if tensor.floor), default=math.nan),
        loss=max((loss_deviation(*pair) for step in reading.steps for pair in step.losses), default=math.nan),
    )


def _surest(coefficients: Sequence[Coefficient | None]) -> float:
    known = [each for each in coefficients if each]
    return min(known, key=lambda each: each.uncertainty).value if known else math.nan


def _loss_deviations(record: Record, trajectory: Trajectory) -> np.ndarray:
    """The largest deviation of a loss in each step, of the whole batch or of a shard, (steps,)."""
    own = np.array(record.shard_losses, np.float64)
    expected = trajectory.shard_losses(record.shards)[:, record.first_step :]
    of_shards = np.vectorize(loss_deviation)(own, np.broadcast_to(expected, own.shape))
    return np.max(of_shards, axis=0)


def _miscounted(certificate: Certificate) -> str:
    if certificate.examples == certificate.expected_examples:
        return ""
    return f"{certificate.examples:,} rows counted, {certificate.expected_examples:,} expected."


def _missing(certificate: Certificate, record: Record) -> Iterator[str]:
    """What of the losses and the count of rows isn't as it should be, in sentences."""
    if miscounted := _miscounted(certificate):
        yield miscounted
    steps, lengths = record.task.steps - record.first_step, {len(losses) for losses in record.shard_losses} or {0}
    if lengths != {steps} or len(record.shard_losses) < record.shards:
        yield (
            f"Losses of {steps} steps and {record.shards} shards are needed, and there are {min(lengths)} of "
            f"{len(record.shard_losses)}."
        )
    elif missing := [step for losses in record.shard_losses for step, loss in enumerate(losses) if loss is None]:
        yield f"The loss of step {record.first_step + min(missing)} isn't finite."
