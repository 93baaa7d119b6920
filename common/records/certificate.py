"""Whether every launch computed what it should: each beside its float64 oracle, with exchange and without."""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec import structs

from common.contract import mlp, oracle, oracle_cache
from common.contract.mlp import Trajectory
from common.contract.oracle import Deviation
from common.contract.rows import Piece
from common.contract.task import Task, maths_of
from common.contract.work import Alone
from common.declarations.arguments import to_arguments
from common.declarations.strategy import Options, name_of
from common.errors import UserError
from common.records import deviation
from common.records.training import Record

FOLLOWS, DEVIATES, NOT_COMPARED = "follows", "deviates", "not compared"
FOLLOWS_UP_TO = "follows up to a kink"
"""The verdict on a launch that left the oracle after a kink, by no more than a kink explains."""
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

MOSTLY_FAILED, NO_CERTIFICATE = "for launches that mostly failed", "for having no certificate"
ALL_REASONS = (*REASONS.values(), MOSTLY_FAILED, NO_CERTIFICATE)
"""Why a strategy isn't ranked, the gravest reason first."""

MOST_OPERATIONS = 2e14
"""An oracle of as many takes some hours on two cores."""
MOST_PARAMETER_BYTES = 2**30
"""In float32; an oracle holds several copies of twice the size."""

CHANGED = "its record or its weights aren't those that the launch left"


class _OracleKey(NamedTuple):
    """What decides which oracle a launch is held to; `workers` is 0 and `alone` empty with gradient exchange."""

    maths: Task
    global_batch: int
    steps: int
    with_state: bool
    earlier_pieces: tuple[Piece, ...]
    workers: int
    alone: str


_OracleOf = Callable[[_OracleKey], Trajectory]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One launch beside the oracle of its maths and global batch. Arrays are per step from `first_step` on."""

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
    """Why a launch wasn't compared, what its deviation starts at, or what its verdict rests on."""
    loss: float = math.nan
    """Largest relative deviation of a loss; NaN when not compared."""
    shard: float = math.nan
    """The same of any shard's loss."""
    weights: float = math.nan
    """Deviation of the final weights; NaN where none were kept."""
    followed_up_to: int | None = None
    """The step of the kink after which it left the oracle, where the verdict is `FOLLOWS_UP_TO`."""
    oracle_losses: np.ndarray = dataclasses.field(default_factory=lambda: np.empty(0))

    @property
    def is_followed(self) -> bool:
        """Whether it follows the oracle, at least up to a kink."""
        return self.verdict in (FOLLOWS, FOLLOWS_UP_TO)


def compare(records: Mapping[str, Record], folder: Path, changed: Collection[str] = ()) -> list[Comparison]:
    """Every `ok` launch beside its oracle. `records` are by launch, and their weights in `folder`.

    Launches without exchange are held to what their declaration says that they compute. Not compared are asynchronous
    launches of several workers, those whose data or weights aren't here, and the `changed`.
    """
    good = {launch: record for launch, record in records.items() if record.status == "ok"}
    # Launches with the same oracle come one after another, so that each oracle is read once, and one is kept.
    oracle_of = lru_cache(maxsize=1)(_oracle)
    ordered = sorted(good.items(), key=lambda item: repr(_oracle_key(item[1])))
    compared = {launch: _compare(launch, record, folder, launch in changed, oracle_of) for launch, record in ordered}
    return [compared[launch] for launch in good]


def deviating(comparisons: Sequence[Comparison]) -> list[str]:
    """What doesn't follow its oracle: a name for each strategy, number of workers and preset, with the reason."""
    notes: dict[str, str] = {}
    for each in comparisons:
        if each.verdict == DEVIATES:
            workers = "1 worker" if each.workers == 1 else f"{each.workers} workers"
            exchange = "" if each.exchange else " without exchange"
            notes.setdefault(f"{each.strategy} with {workers}{exchange}, {each.preset}", each.note)
    return [f"{name} ({note})" for name, note in notes.items()]


def reasons_not_ranked(comparisons: Sequence[Comparison], records: Mapping[str, Record]) -> dict[tuple[str, int], str]:
    """Why a strategy isn't ranked with so many workers, by both; empty where it is.

    Ranked is what follows the oracle in each of its launches, most of which ended well, if the final weights of one
    with the same strategy, number of workers and hosts followed, of whichever preset.
    """
    trained = [each for each in comparisons if each.exchange]
    followed = [each for each in trained if each.is_followed and not math.isnan(each.weights)]
    certified = {(each.without_hosts, each.workers, each.hosts) for each in followed}
    ended = Counter((record.name, record.world_size, record.status) for record in records.values() if record.exchange)
    reasons: dict[tuple[str, int], str] = {}
    for each in trained:
        key = each.strategy, each.workers
        applying = [reasons[key]] if reasons.get(key) else []
        if each.verdict in REASONS:
            applying.append(REASONS[each.verdict])
        if ended[*key, "failed"] > ended[*key, "ok"]:
            applying.append(MOSTLY_FAILED)
        if (each.without_hosts, each.workers, each.hosts) not in certified:
            applying.append(NO_CERTIFICATE)
        reasons[key] = min(applying, key=ALL_REASONS.index, default="")
    return reasons


def trajectory_of(record: Record) -> Trajectory:
    """The oracle of the record's maths, batch and steps; with its final state where the record kept weights.

    Raises UserError where the record's rows aren't those of the data here, or that can't be loaded.
    """
    _check(record, maths_of(record.task))
    return _oracle(_oracle_key(record))


def with_weights_found(record: Record, folder: Path) -> Record:
    """`record` with its weights' files looked for beside it as well: a results folder may have been moved."""

    def placed(name: str) -> str:
        return name if (folder / name).exists() else Path(name).name

    return structs.replace(
        record,
        checkpoint=record.checkpoint and placed(record.checkpoint),
        replica_checkpoints=[placed(name) for name in record.replica_checkpoints],
    )


def _oracle_key(record: Record) -> _OracleKey:
    maths, is_kept = maths_of(record.task), bool(record.checkpoint)
    workers, alone = (0, "") if record.exchange else (record.world_size, record.alone or "")
    earlier_pieces = tuple(record.earlier_pieces)
    return _OracleKey(maths, record.examples_per_step, record.task.steps, is_kept, earlier_pieces, workers, alone)


def _oracle(key: _OracleKey) -> Trajectory:
    if not key.alone:
        return oracle_cache.of_batch(key.maths, key.global_batch, key.steps, key.with_state, key.earlier_pieces)
    return oracle_cache.of_workers_alone(
        key.maths, key.global_batch, key.steps, key.workers, Alone[key.alone], key.with_state
    )


def _compare(launch: str, record: Record, folder: Path, is_changed: bool, oracle_of: _OracleOf) -> Comparison:
    task = record.task
    comparison = Comparison(
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
    if is_changed:
        return dataclasses.replace(comparison, note=CHANGED)
    if record.exchange and not record.synchronous and record.world_size > 1:
        note = "workers don't wait for each other, so no step by step comparison exists"
        return dataclasses.replace(comparison, verdict=ASYNCHRONOUS, note=note)
    if record.examples_per_step < 1:
        return dataclasses.replace(comparison, verdict=DEVIATES, note="its steps have no rows")
    if not record.exchange and not record.alone:
        return dataclasses.replace(comparison, note="no oracle computes this strategy without exchange")
    try:
        deviation, losses = _deviation(with_weights_found(record, folder), folder, oracle_of)
    except UserError as error:
        return dataclasses.replace(comparison, note=str(error))
    verdict, note = _verdict(record, deviation)
    return dataclasses.replace(
        comparison,
        verdict=verdict,
        note=note,
        loss=deviation.loss,
        shard=deviation.shard,
        weights=math.nan if deviation.weights is None else deviation.weights,
        followed_up_to=deviation.kink.step if deviation.kink and verdict == FOLLOWS_UP_TO else None,
        oracle_losses=losses[record.first_step :],
    )


def _deviation(record: Record, folder: Path, oracle_of: _OracleOf) -> tuple[Deviation, np.ndarray]:
    """How far the record is from its oracle, and the oracle's losses. Raises UserError where it can't be compared."""
    task = record.task
    _check(record, maths_of(task))
    if record.exchange:
        trajectory = oracle_of(_oracle_key(record))
        return deviation.deviation(record, task, folder, trajectory), np.array(trajectory.losses)
    if record.examples_per_step % record.world_size:
        raise UserError(
            f"Its {record.examples_per_step} rows per step don't divide by its {record.world_size} workers."
        )
    if record.alone not in Alone.__members__:
        raise UserError(f"It names an oracle that this program doesn't know ({record.alone}): use the one that ran it.")
    alone = oracle_of(_oracle_key(record))
    return deviation.deviation_alone(record, task, folder, alone), np.array(alone.losses)


def _check(record: Record, maths: Task) -> None:
    """Raises UserError where the rows of the launch aren't those on this machine, or its oracle wouldn't end."""
    # Forwards, for the gradients by the weights and for those by the inputs, a multiplication and an addition each.
    largest = max([record.examples_per_step, *(piece.global_batch for piece in record.earlier_pieces)])
    operations = 6 * mlp.parameter_bytes(maths) // 4 * largest * record.task.steps
    if operations > MOST_OPERATIONS or mlp.parameter_bytes(maths) > MOST_PARAMETER_BYTES:
        raise UserError(
            f"Its oracle would take {operations:.0e} operations on {mlp.parameter_bytes(maths):.0e} bytes of "
            f"parameters, of which {MOST_OPERATIONS:.0e} and {MOST_PARAMETER_BYTES:.0e} are tried: launch less."
        )
    if record.data_sha256 and record.data_sha256 != oracle_cache.data_digest(maths):
        raise UserError("The rows of this launch aren't those of the data set on this machine.")


def _verdict(record: Record, deviation: Deviation) -> tuple[str, str]:
    """The verdict on a launch that was compared, and the note on it."""
    if record.other_maths:
        return OTHER_MATHS, _miscounted(deviation)
    if deviation.follows:
        if not record.exchange and deviation.weights is None:
            return FOLLOWS, "by losses, shards and rows alone, since no weights were kept"
        changed = ", ".join(f"{piece.steps} steps of {piece.global_batch} rows" for piece in record.earlier_pieces)
        return FOLLOWS, f"its workers changed after {changed}" if changed else ""
    kink = deviation.kink
    if kink is None or not deviation.follows_up_to_the_kink:
        return DEVIATES, _explanation(record, deviation)
    place = f"a kink at step {kink.step}, layer {kink.layer}, unit {kink.unit}, {kink.distance:.0e} from zero"
    if kink.step < record.first_step:
        return NOT_COMPARED, f"it goes on after {place}, from where the oracle may part from float32"
    return FOLLOWS_UP_TO, f"left after {place}"


def _miscounted(deviation: Deviation) -> str:
    if deviation.examples == deviation.expected_examples:
        return ""
    return f"{deviation.examples:,} rows counted, {deviation.expected_examples:,} expected"


def _explanation(record: Record, deviation: Deviation) -> str:
    """Why the launch deviates."""
    reasons = [_miscounted(deviation)] if _miscounted(deviation) else []
    steps = record.task.steps - record.first_step
    lengths = {len(losses) for losses in (record.losses, *record.shard_losses)}
    if lengths != {steps} or len(record.shard_losses) < record.shards:
        reasons.append(
            f"losses of {steps} steps and {record.shards} shards are needed, and there are {min(lengths)} of "
            f"{len(record.shard_losses)}"
        )
    elif deviation.left_at is not None and deviation.loss > oracle.LOSS_TOLERANCE:
        reasons.append(f"losses leave the tolerance at step {deviation.left_at}")
    elif deviation.left_at is not None:
        reasons.append("a shard's losses leave the tolerance: they were taken of other rows than the shard's")
    if deviation.left_at is not None and deviation.kink and deviation.kink.step < deviation.left_at:
        reasons.append(f"by more than the kink at step {deviation.kink.step} explains")
    return "; ".join(reasons) or "final weights outside the tolerance"
