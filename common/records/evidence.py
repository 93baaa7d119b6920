"""What whoever started a launch, or anybody later, reads from the evidence that it left beside its record."""

import dataclasses
from pathlib import Path

from msgspec import structs
from threadpoolctl import threadpool_limits

from common.contract import dataset, mistakes, reading
from common.contract.evidence import FIRST_STEPS, evidence_path, read_evidence
from common.contract.reading import Reading, Trained
from common.contract.rows import Share
from common.contract.work import Recipe
from common.declarations import catalogue
from common.errors import UserError
from common.records.files import read_record, write_record
from common.records.training import Record


def note_reading(path: Path, keep: bool, late_alone: bool = False) -> Record:
    """Write into the record in `path` what its evidence says, and delete that unless it is to be kept.

    `late_alone`: of a run from the beginning only the step on the way and the last one, which takes less than half as
    long. Returns the record. Raises UserError where it can't be read or written.
    """
    record, evidence = read_record(path, Record), evidence_path(path)
    if record.status == "ok" and record.evidence_sha256:
        sha256 = record.evidence_sha256 if keep else ""
        record = structs.replace(record, reading=reading_of(record, path, late_alone), evidence_sha256=sha256)
        write_record(path, record)
    if not keep:
        evidence.unlink(missing_ok=True)
    return record


def reading_of(record: Record, path: Path, late_alone: bool = False) -> Reading:
    """What the evidence beside the record in `path` says, or else the reason why nothing can be read.

    `late_alone` as for `note_reading`.
    """
    try:
        states = read_evidence(evidence_path(path), record.evidence_sha256)
        if late_alone and record.first_step == 0:
            # After a short warm-up there are no others.
            states = {step: each for step, each in states.items() if step > FIRST_STEPS} or states
        data = dataset.load(record.task)
        if data.sha256 != record.data_sha256:
            return Reading((), reason="the rows of this launch aren't those of the data set on this machine")
        with threadpool_limits(1):
            declared = trained(record)
            found, updates = reading.read(declared, states, data)
        strategy = catalogue.strategies().get(record.strategy)
        remedies = strategy.family.remedies if strategy else {}
        return dataclasses.replace(found, mistakes=mistakes.named(declared, found, updates, remedies))
    except UserError as error:
        return Reading((), reason=str(error))
    except ValueError as error:
        return Reading((), reason=f"its evidence is none of this training: {error}")


def in_words(record: Record) -> str:
    """What the launch's updates were made of, or what is wrong of them."""
    reading = record.reading
    if reading is None or not reading.steps:
        why = reading.reason if reading else "it left no evidence"
        return f"What its updates were made of can't be told: {why.rstrip('.')}."
    low, high = (f"{round(share, 4) + 0.0:.4f}" for share in reading.shares)
    counted = low if low == high else f"{low} to {high}"
    mistakes = () if record.other_maths else reading.mistakes
    verdict = "not as declared" if mistakes else "as declared"
    if record.other_maths:
        verdict = f"other maths, by {' and '.join(record.other_maths)}".replace("_", " ")
    sentence = (
        f"Updates read: {len(reading.steps)}. Each worker's gradient counted {counted} times, and the declared recipe "
        f"leaves {reading.residual:.0e} of an update: {verdict}."
    )
    return " ".join([sentence, *mistakes])


def trained(record: Record) -> Trained:
    """What the launch was to train. Raises ValueError where no recipe is declared."""
    if record.recipe not in Recipe.__members__:
        raise ValueError("no recipe is declared for it")
    batch = record.examples_per_step
    return Trained(
        task=record.task,
        recipe=Recipe[record.recipe],
        workers=record.world_size,
        rows=Share(batch, 0, batch, tuple(record.earlier_pieces)),
        first_step=record.first_step,
        losses=record.shard_losses,
    )
