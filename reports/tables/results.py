"""A results folder as the report reads it: every record, and the plan of the comparison where there is one."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

import pandas as pd

from common.errors import UserError
from common.records import variables
from common.records.ceiling import Ceiling, read_ceilings
from common.records.collective_times import CollectivesRecord
from common.records.files import damaged_records, record_paths
from common.records.manifest import Differences, check
from common.records.plan import PLAN, PlannedRow, read_left_out, read_plan
from common.records.presentation import read_presented
from common.records.training import Record
from common.statistics.paired import MARGIN

TRACES, REPLAYS = "traces", "replays"
"""The folders, in that of the results, with the records of traced launches and of replayed exchanges."""


@dataclass(frozen=True)
class Origin:
    """What made the records of a folder, and whether they are what its launches left."""

    command: str = ""
    """The command line that fills such a folder again; empty where nobody noted it."""
    differences: Differences = field(default_factory=Differences)
    """What in the folder isn't as it was noted when its launches ended."""
    variables: Mapping[str, str] | None = None
    """The variables that frameworks obey, as the user had set them; None where nobody kept them."""
    digest: str = ""
    """SHA-256 of all files of records, one after another, hexadecimal."""


@dataclass(frozen=True)
class Results:
    """All records of one folder by their files' stems, and the planned launches (None without a plan)."""

    folder: Path
    records: dict[str, Record]
    plan: pd.DataFrame | None
    left_out: Mapping[str, float] = field(default_factory=dict)
    """Strategies that the comparison had no time for, with the minutes that it would have needed with them."""
    ceilings: Sequence[Ceiling] = ()
    """What the probes of the frameworks told."""
    replays: Mapping[str, CollectivesRecord] = field(default_factory=dict)
    """Exchanges of strategies that were replayed alone, by their files' stems."""
    traces: Mapping[str, Record] = field(default_factory=dict)
    """The launches whose messages were to be replayed, by their files' stems."""
    origin: Origin = field(default_factory=Origin)
    damaged: Mapping[str, str] = field(default_factory=dict)
    """By launch the sentence on each record that can't be reported on, which counts as not run."""

    @property
    def margin(self) -> float:
        """By how much strategies may differ and be called alike: set by the plan, before any launch."""
        return MARGIN if self.plan is None or self.plan.empty else float(self.plan["margin"].iloc[0])


def read_results(folder: Path) -> Results:
    """Read `folder`. Raises UserError when it is missing, holds neither record nor plan, or holds a damaged table."""
    if not folder.is_dir():
        raise UserError(f"{folder} isn't a folder: run a comparison first, or name the folder of one.")
    records = read_presented(folder, Record)
    damaged = damaged_records(folder, Record, records)
    _refuse_copies(folder, records)
    rows = read_plan(folder)
    plan = None if rows is None else pd.DataFrame(rows, columns=[each.name for each in fields(PlannedRow)])
    if not records and plan is None:
        nothing = f"{folder} holds no records: run a comparison first, or name the folder of one."
        raise UserError(next(iter(damaged.values()), nothing))
    return Results(
        *(folder, records, plan, read_left_out(folder), read_ceilings(folder)),
        replays=read_presented(folder / REPLAYS, CollectivesRecord),
        traces=read_presented(folder / TRACES, Record),
        origin=origin_of(folder, [*record_paths(folder), *record_paths(folder / REPLAYS)]),
        damaged=damaged,
    )


def origin_of(folder: Path, files: Iterable[Path]) -> Origin:
    """What made the records in these files of a folder."""
    noted, content = folder / "command.txt", hashlib.sha256()
    command = noted.read_text(encoding="utf-8", errors="replace").strip() if noted.exists() else ""
    for path in files:
        content.update(path.read_bytes())
    return Origin(command, check(folder), variables.read(folder), content.hexdigest())


def newest_comparison(folder: Path) -> Path:
    """The folder in `folder` whose plan was written last. Raises UserError when none has a plan."""
    plans = sorted(folder.glob(f"*/{PLAN}"), key=lambda plan: (plan.stat().st_mtime, plan))
    if not plans:
        raise UserError(f"{folder} holds no comparison: run one first, or name a folder of records with --results.")
    return plans[-1].parent


def _refuse_copies(folder: Path, records: Mapping[str, Record]) -> None:
    """Raise UserError for a launch that is there twice."""
    found: dict[tuple, Path] = {}
    for name, record in records.items():
        path, seconds = folder / f"{name}.json", tuple(window.seconds for window in record.windows)
        launch = (record.name, record.world_size, record.started_at, record.time_to_first_step_s, seconds)
        if (first := found.setdefault(launch, path)) != path:
            raise UserError(f"{first} and {path} are records of the same launch, which counts once: delete one.")
