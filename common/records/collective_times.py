"""The record of one launch of the laboratory: every call of every rank, raw.

While the launch runs its first rank appends each cell as a line of JSON to a file beside the record, which keeps what
was measured whatever happens. Whoever started the launch makes one immutable file of the lines.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Literal

import numpy as np

from common.declarations.sweep import Sweep
from common.errors import UserError
from common.records.files import to_json
from common.records.header import Amount, Count, Header, Moment, Part, Positive, Seconds
from common.records.trace import Message


class Cell(Part, frozen=True, kw_only=True):
    """One collective at one size: what its timed calls took. A cell that isn't ok has no calls."""

    collective: str
    """What was measured, by its name in `common.contract.collective_meanings`."""
    size_bytes: Count
    """As nccl-tests counts it; 0 for a barrier."""
    status: Literal["ok", "unsupported", "failed"]
    """How it ended."""
    reason: str | None = None
    """Why it isn't ok: one sentence."""
    entered_seconds: list[list[Moment]] = []
    """By rank and call, when the rank began the call: by its host's monotonic clock, since the cell's first call."""
    left_seconds: list[list[Moment]] = []
    """By rank and call, when it had the result, by the same clock."""
    counted_calls: Count = 0
    """Calls after the timed ones, one right after the other, over which bytes and processor time are counted."""
    sent_bytes: Amount | None = None
    """Bytes per call of all ranks over the launch's own network, with packet headers; None where nothing counted
    them."""
    processor_seconds: Seconds | None = None
    """Per call, of all ranks' processes together."""
    formula_bytes: Amount | None = None
    """What they send by the algorithm's formula; None where there is none, or where ranks of one host send one another
    what isn't counted."""
    algorithm: str = ""
    """The algorithm that the library takes at this size, in words; of a step's messages all of them."""
    formula: str = ""
    """Its formula in words, or theirs. Presentation, as `source` is."""
    source: str = ""
    """What says so."""
    messages: list[Message] = []
    """Those of a replayed step; its size is the sum of theirs."""


class Replayed(Part, frozen=True, kw_only=True):
    """The strategy whose step is replayed."""

    strategy: str
    launch: str
    """The launch of the same round that made the whole step, by the stem of its record; empty: there was none."""
    source: str
    """What told the messages, in words."""
    under_way_seconds: list[Seconds] = []
    """As its `Trace` has them."""


class CollectivesRecord(Header, frozen=True, kw_only=True, tag="collectives"):
    """What one launch measured, or why it measured nothing; cells that it had finished before it failed are kept."""

    library: str
    """Its name."""
    title: str = ""
    """Its name in prose. Presentation."""
    repetition: Positive = 1
    """Its round: which launch of this library, or of this replayed strategy, and world it is, from 1."""
    sweep: Sweep
    """What was to be measured."""
    replayed: Replayed | None = None
    """Where a strategy's step is replayed."""
    one_process: bool = False
    """Whether the ranks are devices of one process, so that there is one row of times for all of them."""
    facts: dict[str, str] = {}
    """What the library tells of itself."""
    timing_seconds: Seconds = 0.0
    """What it takes to look at the clock before and after a call that does nothing: the median on the first rank."""
    elapsed_seconds: Seconds = 0.0
    """From the start until it had measured everything."""
    cells: list[Cell] = []
    """In the order in which they were measured."""


def cells_path(path: Path) -> Path:
    """Where the cells of the record in `path` are kept while its launch runs."""
    return path.with_name(f"{path.name}.cells")


def append_line(path: Path, values: object) -> None:
    """Add one line of JSON to the file. Raises UserError where it can't be written to."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(to_json(values), allow_nan=False) + "\n")
    except OSError as error:
        raise UserError(
            f"{path} can't be written to ({error.strerror}): free some space, or name another folder."
        ) from error


def read_lines(path: Path) -> list[dict[str, object]]:
    """The lines of the file up to the first damaged one, which was cut short; none where there is no file."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    lines: list[dict[str, object]] = []
    with suppress(ValueError):
        for line in text.split("\n")[:-1]:
            lines.append(json.loads(line))
    return lines


def transfer_seconds(cell: Cell) -> list[float]:
    """Seconds of each call from when the last rank began it until the last rank has its result.

    The ranks' clocks must be one, or have been set right.
    """
    begins, ends = np.max(cell.entered_seconds, axis=0), np.max(cell.left_seconds, axis=0)
    return (ends - begins).tolist()


def arrival_seconds(cell: Cell) -> list[list[float]]:
    """By rank and call how much later than the first rank it began, in seconds. Clocks as in `transfer_seconds`."""
    return (np.array(cell.entered_seconds) - np.min(cell.entered_seconds, axis=0)).tolist()
