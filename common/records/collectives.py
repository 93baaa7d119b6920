"""The record of one launch of the laboratory: every call of every rank, raw.

While the launch runs its first rank appends a line of JSON for each cell to a file beside the record, so that what was
measured is kept whatever happens; when it has ended, whoever started it makes one immutable file of them.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from common.errors import UserError
from common.records.json_files import read_dataclass, write_dataclass

SCHEMA_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One collective at one size: what its timed calls took. A cell that isn't ok has no calls."""

    collective: str
    """What was measured, by its name in `common.contract.collectives`."""
    size_bytes: int
    """As nccl-tests counts it; 0 for a barrier."""
    status: Literal["ok", "unsupported", "failed"]
    """How it ended."""
    reason: str | None = None
    """Why it isn't ok: one sentence."""
    entered_seconds: list[list[float]] = field(default_factory=list)
    """By rank and call, when the rank began the call: by its host's monotonic clock, since the cell's first call."""
    left_seconds: list[list[float]] = field(default_factory=list)
    """By rank and call, when it had the result, by the same clock."""
    loop_calls: int = 1
    """Calls between two looks at the clock: 1, or those of a whole loop, which then counts as one above."""
    counted_calls: int = 0
    """Calls after the timed ones, one right after the other, over which bytes and processor time are counted."""
    sent_bytes: float | None = None
    """Bytes per call that all ranks together sent over the launch's own network, packet headers included; None where
    other programs' couldn't be told apart."""
    processor_seconds: float | None = None
    """Per call, of all ranks' processes together."""
    formula_bytes: float | None = None
    """What they send by the algorithm's formula; None where there is none, and where several ranks of a host send one
    another what isn't counted."""
    algorithm: str = ""
    """The algorithm that the library takes at this size, in words; of a step's messages all of them."""
    formula: str = ""
    """Its formula in words, or theirs."""
    source: str = ""
    """What says so."""
    messages: list[dict[str, object]] = field(default_factory=list)
    """Of a replayed step its messages, each the fields of a `Message`; its size is the sum of theirs."""


@dataclass(frozen=True, kw_only=True)
class CollectivesRecord:
    """What one launch measured, or why it measured nothing. Every field is one key of the JSON file."""

    schema_version: int = SCHEMA_VERSION
    """Raised when a field goes or changes its meaning; one that is added has a default, which older files get."""
    library: str
    """Its name."""
    title: str
    """Its name in prose."""
    family: str
    """What its folder calls itself in prose."""
    colors: list[str]
    """What its family is drawn in, from dark to light."""
    status: Literal["ok", "unsupported", "failed"]
    """How the launch ended; cells that it had finished before are kept."""
    reason: str | None = None
    """Why it isn't ok: one sentence."""
    log: str | None = None
    """Name of the log file, in the same folder."""
    repetition: int = 1
    """Which of the launches of this library, or of this replayed strategy, and world it is, from 1: its round."""
    sweep: dict[str, object]
    """The fields of its `Sweep`."""
    replayed: dict[str, object] = field(default_factory=dict)
    """Where a strategy's step is replayed: the `strategy`, the `launch` of the same round that made the whole step (the
    stem of its record), the `source` of the messages, and `under_way_seconds`, as its `Trace` has them."""
    workers: int
    """Ranks."""
    one_process: bool = False
    """Whether they are devices of one process, so that there is one row of times for all of them."""
    backend: str = ""
    """What carried the tensors, such as gloo."""
    device: str = "cpu"
    """Where they lay: cpu, or a GPU's name."""
    facts: dict[str, str] = field(default_factory=dict)
    """What the library tells of itself."""
    timing_seconds: float = 0.0
    """What it takes to look at the clock before and after a call that does nothing: the median on the first rank."""
    pinned_cores: list[int] = field(default_factory=list)
    """Cores that the first rank was kept on."""
    oversubscribed: bool = False
    """Whether there were more threads than cores."""
    private_network: bool = False
    """Whether the launch had a network namespace to itself."""
    hosts: list[dict[str, object]] = field(default_factory=list)
    """The hosts of a launch over several, as a strategy's record has them."""
    virtual: dict[str, float | None] = field(default_factory=dict)
    """Of virtual hosts, as a strategy's record has it."""
    link: dict[str, float] = field(default_factory=dict)
    """The link between hosts, as a strategy's record has it."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of Python, the library and what it uses."""
    host: dict[str, object] = field(default_factory=dict)
    """The first rank's machine: processor, cores, memory, GPUs, system."""
    git_commit: str | None = None
    """The commit of the checkout that ran."""
    started_at: str
    """When the first rank started: ISO 8601, UTC."""
    elapsed_seconds: float = 0.0
    """From then until it had measured everything."""
    cells: list[Cell] = field(default_factory=list)
    """In the order in which they were measured."""


def cells_path(path: Path) -> Path:
    """Where the cells of the record in `path` are kept while its launch runs."""
    return path.with_name(f"{path.name}.cells")


def append_line(path: Path, values: dict[str, object]) -> None:
    """Add one line of JSON to the file. Raises UserError where it can't be written to."""
    try:
        with path.open("a") as file:
            file.write(json.dumps(values, allow_nan=False) + "\n")
    except OSError as error:
        raise UserError(
            f"{path} can't be written to ({error.strerror}): free some space, or name another folder."
        ) from (error)


def read_lines(path: Path) -> list[dict[str, object]]:
    """The lines of the file up to the first that is damaged; none where there is no file.

    Only the last one can be: it was cut short, by a full disk or by the end of its launch.
    """
    if not path.exists():
        return []
    found = []
    for line in path.read_text(errors="replace").split("\n")[:-1]:
        try:
            found.append(json.loads(line))
        except ValueError:
            break
    return found


def write_record(path: Path, record: CollectivesRecord) -> None:
    """Write the JSON whole or not at all. Raises UserError when its folder can't be written to."""
    write_dataclass(path, record)


def read_record(path: Path) -> CollectivesRecord:
    """The record in `path`. Raises UserError when it is damaged or of another schema version."""
    return read_dataclass(
        path, CollectivesRecord, "a record of collectives", "delete it and measure again", inside=("cells", Cell)
    )


def read_records(folder: Path) -> dict[str, CollectivesRecord]:
    """Every record in the folder by its file's name, in the order of the files. Raises UserError for a damaged one."""
    return {path.stem: read_record(path) for path in sorted(folder.glob("*.json"))}


def transfer_seconds(cell: Cell) -> list[float]:
    """Of each call what passes from when the last rank began it until the last rank has its result.

    Of a loop it's the mean over its calls. The ranks' clocks must be one, or have been set right.
    """
    return [
        (max(left) - max(entered)) / cell.loop_calls
        for entered, left in zip(
            zip(*cell.entered_seconds, strict=True), zip(*cell.left_seconds, strict=True), strict=True
        )
    ]


def arrival_seconds(cell: Cell) -> list[list[float]]:
    """By rank and call how much later than the first rank it began. The ranks' clocks must be one, or set right."""
    first = [min(entered) for entered in zip(*cell.entered_seconds, strict=True)]
    return [[own - least for own, least in zip(entered, first, strict=True)] for entered in cell.entered_seconds]
