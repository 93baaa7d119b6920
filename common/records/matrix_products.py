"""The record of one launch that multiplied matrices: every part of every call on every rank, raw."""

import statistics
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal

from common.records.json_files import read_dataclass, write_dataclass

SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The products of one size."""

    size: int
    """Rows and columns n of A, B and C."""
    parts: list[str]
    """What a call consists of, one part after the other, such as scatter, broadcast, product, gather."""
    moments_seconds: list[list[list[float]]]
    """By rank and call when the rank began, then when it was done with each part: by their host's clock that counts
    from its boot, since rank 0 began its first call."""


@dataclass(frozen=True, kw_only=True)
class MatrixRecord:
    """What one launch measured, or why it measured nothing. Every field is one key of the JSON file."""

    schema_version: int = SCHEMA_VERSION
    """Raised when a field goes or changes its meaning; one that is added has a default, which older files get."""
    way: str
    """Its name."""
    title: str
    """Its name in prose."""
    kind: Literal["naive", "alone", "rows", "reduction"]
    """What it does, as its declaration says."""
    family: str
    """What its folder calls itself in prose."""
    colors: list[str]
    """What its family is drawn in, from dark to light."""
    status: Literal["ok", "unsupported", "failed"]
    """How the launch ended."""
    reason: str | None = None
    """Why it isn't ok: one sentence."""
    log: str | None = None
    """Name of the log file, in the same folder."""
    repetition: int = 1
    """Which of the launches of this way it is, from 1: the round that it belongs to."""
    products: dict[str, object]
    """The fields of its `Products`."""
    workers: int
    """Processes that share each product."""
    backend: str = ""
    """What carried the matrices, such as gloo."""
    device: str = "cpu"
    """What multiplied them."""
    pinned_cores: list[int] = field(default_factory=list)
    """Cores that the first rank was kept on."""
    oversubscribed: bool = False
    """Whether there were more threads than cores."""
    private_network: bool = False
    """Whether the launch had a network namespace to itself."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of Python, the framework and the libraries."""
    host: dict[str, object] = field(default_factory=dict)
    """The first rank's machine: processor, cores, memory, GPUs, system."""
    git_commit: str | None = None
    """The commit of the checkout that ran."""
    started_at: str
    """When the first rank started: ISO 8601, UTC."""
    elapsed_seconds: float = 0.0
    """From then until it had measured everything."""
    cells: list[Cell] = field(default_factory=list)
    """One for each size, in the order in which they were measured; none where the launch isn't ok."""


def call_seconds(cell: Cell) -> list[float]:
    """Of each call what passes from when the last rank begins until rank 0 has C."""
    return [ends[-1] - starts for starts, ends in zip(_last_arrivals(cell), cell.moments_seconds[0], strict=True)]


def part_shares(cell: Cell) -> dict[str, float]:
    """Each part's median over the calls on rank 0, of `call_seconds`, as a share of all parts', which add up to 1.

    What rank 0 did before the last rank began counts nowhere, and where it waits for a slower rank counts as the part
    that it waits in.
    """
    spent: dict[str, list[float]] = {part: [] for part in cell.parts}
    for arrival, moments in zip(_last_arrivals(cell), cell.moments_seconds[0], strict=True):
        clipped = [max(moment, arrival) for moment in moments]
        for part, (begun, ended) in zip(cell.parts, pairwise(clipped), strict=True):
            spent[part].append(ended - begun)
    medians = {part: statistics.median(seconds) for part, seconds in spent.items()}
    return {part: seconds / sum(medians.values()) for part, seconds in medians.items()}


def in_words(cell: Cell) -> str:
    """One line on a cell."""
    seconds = call_seconds(cell)
    shares = ", ".join(f"{part} {100 * share:.0f} %" for part, share in part_shares(cell).items())
    median = f"{1e3 * statistics.median(seconds):>12,.3f} ms"
    return f"{cell.size:>6} x {cell.size:<6} {median}  ({len(seconds)} calls; {shares})"


def _last_arrivals(cell: Cell) -> list[float]:
    return [max(moments[0] for moments in of_call) for of_call in zip(*cell.moments_seconds, strict=True)]


def write_record(path: Path, record: MatrixRecord) -> None:
    """Write the JSON whole or not at all. Raises UserError when its folder can't be written to."""
    write_dataclass(path, record)


def read_record(path: Path) -> MatrixRecord:
    """The record in `path`. Raises UserError when it is damaged or of another schema version."""
    remedy = "delete it and measure again"
    return read_dataclass(path, MatrixRecord, "a record of matrix products", remedy, inside=("cells", Cell))


def read_records(folder: Path) -> dict[str, MatrixRecord]:
    """Every record in the folder by its file's name, in the order of the files. Raises UserError for a damaged one."""
    return {path.stem: read_record(path) for path in sorted(folder.glob("*.json"))}
