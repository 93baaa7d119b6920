"""What makes records or a plan unfit for a report, although every value in them is of its type."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd

from common.contract.task import task_of
from common.errors import UserError
from common.records.json_types import misfits
from common.records.training import Record

_KEYS = {
    "windows": {"rank", "step", "steps", "seconds"},
    "accuracies": {"step", "accuracy", "training_seconds"},
    "phases": {"name", "seconds", "meaning"},
    "distributed_by": {"line", "code"},
    "hosts": {"name", "workers"},
}
"""By the field of a record, what each of its entries has at least."""

_ROUNDING = 1e-6
"""By which share a mean may differ from the one that is worked out again."""

_COUNTS_OF_A_WINDOW = ("rank", "step", "involuntary_switches")

_TASK = ("preset", "dimensions", "batch", "steps", "window_steps", "checkpoint_steps", "seed")
"""What the report takes straight from a record's task."""


@dataclass(frozen=True)
class _Host:
    """What the report takes of a record's host, where the record has it."""

    name: str
    processor: str
    cores: int | None
    memory_bytes: int
    gpus: list[str]
    system: str


@dataclass(frozen=True)
class _Site:
    """What the report takes of an entry of a record's hosts, where it is there."""

    name: str
    workers: int
    cores: int
    processor: str
    address: str
    interface: str
    clock_offset_seconds: float
    clock_uncertainty_seconds: float


@dataclass(frozen=True)
class _Phase:
    """An entry of a record's phases."""

    name: str
    seconds: float
    meaning: str


@dataclass(frozen=True)
class _Quotation:
    """An entry of a record's distributed_by."""

    line: int
    code: str


def check_records(records: Mapping[Path, Record]) -> None:
    """Raises UserError for the first record that can't be reported on, and for a launch that is there twice."""
    found: dict[tuple, Path] = {}
    for path, record in records.items():
        if flaw := next(_flaws(record), ""):
            raise UserError(f"{path} is damaged ({flaw}): delete it and run its launch again.")
        seconds = tuple(window["seconds"] for window in record.windows)
        launch = (record.name, record.world_size, record.started_at, record.time_to_first_step_s, seconds)
        if (first := found.setdefault(launch, path)) != path:
            raise UserError(f"{first} and {path} are records of the same launch, which counts once: delete one.")


def check_plan(path: Path, plan: pd.DataFrame) -> None:
    """Raises UserError where the plan in `path` has values of a wrong type, or a launch in two ways."""
    remedy = "delete it or run the comparison again"
    if not plan.empty and plan["exchange"].dtype != bool:
        raise UserError(f"{path} has an exchange that is neither True nor False: {remedy}.")
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
    for name, keys in _KEYS.items():
        if any(not keys <= entry.keys() for entry in getattr(record, name)):
            yield f"its {name} lack one of {', '.join(sorted(keys))}"
    if missing := [name for name in _TASK if name not in record.task]:
        yield f"its task lacks {', '.join(missing)}"
    entries = {_Phase: record.phases, _Quotation: record.distributed_by, _Site: record.hosts}
    wrong = [name for kind, found in entries.items() for entry in found for name in misfits(entry, kind)]
    if wrong := misfits(record.host, _Host) + wrong:
        yield f"no record has such a value of {', '.join(wrong)}"
    if not _has_zone(record.started_at):
        yield "started_at isn't a time with its zone"
    if not all(0 < window["seconds"] < math.inf and window["steps"] >= 1 for window in record.windows):
        yield "a window has no steps, or took no time"
    if any(window.get("own_seconds", 0) < 0 for window in record.windows):
        yield "a window took less than no processor time"
    if record.status == "ok" and min(record.world_size, record.examples_per_step, record.shards) < 1:
        yield "it is ok without workers, rows or shards"
    if record.status == "ok" and record.examples_per_step % record.shards:
        yield "its shards don't divide its rows"
    if record.hosts and sum(host["workers"] for host in record.hosts) != record.world_size:
        yield "its hosts have another number of workers than it has"
    if len(record.host_bytes_per_step) not in (0, len(record.hosts)):
        yield "its host_bytes_per_step aren't those of its hosts"
    if record.accuracies and record.final_accuracy is None:
        yield "it has accuracies and no final_accuracy"
    if negative := [name for name, values in _counts(record).items() if min(values, default=0) < 0]:
        yield f"it counts fewer than none of {', '.join(negative)}"
    if len(record.examples_by_rank) > record.world_size:
        yield "it counts rows of more ranks than it has workers"
    if not _is_mean_of_shards(record):
        yield "its losses aren't the means of its shards' losses"
    yield from _flaws_of_task(record)


def _counts(record: Record) -> dict[str, Sequence[float]]:
    """Every field of the record that counts something, with what it counts."""
    return {
        "examples_per_step": [record.examples_per_step],
        "examples_by_rank": record.examples_by_rank,
        "threads_per_worker": [record.threads_per_worker],
        "processes_beside": [record.processes_beside],
        "restarted_workers": [record.restarted_workers],
        "first_step": [record.first_step],
        "staleness": record.staleness,
        "peak_memory_bytes": record.peak_memory_bytes,
        "memory_bytes": [count for process in record.memory_bytes for count in process.values()],
        "wire_bytes_per_step": [record.wire_bytes_per_step or 0],
        "host_bytes_per_step": record.host_bytes_per_step,
        "formula_bytes_per_step": [record.formula_bytes_per_step or 0],
        "windows": [window.get(name, 0) for window in record.windows for name in _COUNTS_OF_A_WINDOW],
        "accuracies": [accuracy["step"] for accuracy in record.accuracies],
    }


def _is_mean_of_shards(record: Record) -> bool:
    """Whether each loss is the mean over the shards', where these have as many steps."""
    if {len(losses) for losses in record.shard_losses} != {len(record.losses)}:
        return True
    # What isn't finite is null, and becomes NaN.
    losses, shards = np.array(record.losses, np.float64), np.array(record.shard_losses, np.float64)
    return np.allclose(losses, shards.mean(axis=0), rtol=_ROUNDING, atol=0.0, equal_nan=True)


def _flaws_of_task(record: Record) -> Iterator[str]:
    try:
        steps = task_of(record.task).steps
    except UserError as error:
        yield f"its task can't be meant: {str(error).rstrip('.')}"
        return
    if (record.losses or record.windows) and not 0 <= record.first_step < steps:
        yield "it begins with a step that its task doesn't have"


def _has_zone(time: str) -> bool:
    try:
        return datetime.fromisoformat(time).tzinfo is not None
    except ValueError:
        return False
