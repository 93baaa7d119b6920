"""What makes records or a plan unfit for a report, although every value in them is of its type."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd

from common.errors import UserError
from common.records.training import Record

_ROUNDING = 1e-6
"""By which share a mean may differ from the one that is worked out again."""


def check_records(folder: Path, records: Mapping[str, Record]) -> dict[str, str]:
    """Return by launch, in a sentence, why a record of the folder can't be reported on.

    Raises UserError for a launch that is there twice.
    """
    sentences: dict[str, str] = {}
    found: dict[tuple, Path] = {}
    for name, record in records.items():
        path = folder / f"{name}.json"
        if flaw := next(_flaws(record), ""):
            sentences[name] = f"{path} is damaged ({flaw}): delete it and run its launch again."
            continue
        seconds = tuple(window.seconds for window in record.windows)
        launch = (record.name, record.world_size, record.started_at, record.time_to_first_step_s, seconds)
        if (first := found.setdefault(launch, path)) != path:
            raise UserError(f"{first} and {path} are records of the same launch, which counts once: delete one.")
    return sentences


def check_plan(path: Path, plan: pd.DataFrame) -> None:
    """Raises UserError where the plan in `path` has values of a wrong type, or a launch in two ways."""
    remedy = "delete it or run the comparison again"
    if not plan.empty and plan["exchange"].dtype != bool:
        raise UserError(f"{path} has an exchange that is neither True nor False: {remedy}.")
    if "margin" in plan and not (pd.to_numeric(plan["margin"], errors="coerce") > 0).all():
        raise UserError(f"{path} has a margin that isn't a number above 0: {remedy}.")
    # Plans of one machine, and older ones, name no hosts.
    for name in ("workers", "repetition", *({"hosts"} & {*plan.columns})):
        if not (pd.to_numeric(plan[name], errors="coerce") > 0).all():
            raise UserError(f"{path} has a number of {name} that isn't one above 0: {remedy}.")
    facts = ["launch", "strategy", "label", "preset", "scaling", "workers", "exchange", "repetition", "purpose"]
    facts += [name for name in ("hosts", "bandwidth_bits_per_second") if name in plan]
    launches = plan.drop_duplicates(facts)["launch"]
    if launches.duplicated().any():
        raise UserError(f"{path} plans {launches[launches.duplicated()].iloc[0]} in two ways: {remedy}.")


def _flaws(record: Record) -> Iterator[str]:
    if not _has_zone(record.started_at):
        yield "started_at isn't a time with its zone"
    if record.status == "ok" and min(record.world_size, record.examples_per_step, record.shards) < 1:
        yield "it is ok without workers, rows or shards"
    if record.status == "ok" and record.examples_per_step % record.shards:
        yield "its shards don't divide its rows"
    if record.hosts and sum(host.workers for host in record.hosts) != record.world_size:
        yield "its hosts have another number of workers than it has"
    if len(record.host_bytes_per_step) not in (0, len(record.hosts)):
        yield "its host_bytes_per_step aren't those of its hosts"
    if record.accuracies and record.final_accuracy is None:
        yield "it has accuracies and no final_accuracy"
    if len(record.examples_by_rank) > record.world_size:
        yield "it counts rows of more ranks than it has workers"
    if not _is_mean_of_shards(record):
        yield "its losses aren't the means of its shards' losses"
    if (record.losses or record.windows) and record.first_step >= record.task.steps:
        yield "it begins with a step that its task doesn't have"
    if sum(piece.steps for piece in record.earlier_pieces) > record.first_step:
        yield "its earlier pieces have more steps than came before it"
    if any(piece.global_batch % record.task.batch for piece in record.earlier_pieces):
        yield "its earlier pieces have rows that no number of workers has"


def _is_mean_of_shards(record: Record) -> bool:
    """Whether each loss is the mean over the shards', where these have as many steps."""
    if {len(losses) for losses in record.shard_losses} != {len(record.losses)}:
        return True
    # What isn't finite is null, and becomes NaN.
    losses, shards = np.array(record.losses, np.float64), np.array(record.shard_losses, np.float64)
    return np.allclose(losses, shards.mean(axis=0), rtol=_ROUNDING, atol=0.0, equal_nan=True)


def _has_zone(time: str) -> bool:
    try:
        return datetime.fromisoformat(time).tzinfo is not None
    except ValueError:
        return False
