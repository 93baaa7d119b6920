"""A results folder as the report reads it: every record, and the plan of the comparison where there is one."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from common.errors import UserError
from common.records import variables
from common.records.ceiling import Ceiling, read_ceilings
from common.records.collective_times import CollectivesRecord
from common.records.files import damaged_records, record_paths
from common.records.manifest import Differences, check
from common.records.presentation import read_presented
from common.records.training import Record
from common.statistics.paired import MARGIN

PLAN_COLUMNS = (
    *("position", "launch", "strategy", "label", "preset", "scaling", "workers", "exchange", "repetition", "purpose"),
    "order_seed",
)

REPLAYS = "replays"  # The folder, in that of the results, with the records of replayed exchanges.


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
    origin: Origin = field(default_factory=Origin)
    damaged: Mapping[str, str] = field(default_factory=dict)
    """By launch the sentence on each record that can't be reported on, which counts as not run."""

    @property
    def started_at(self) -> list[str]:
        """When each launch started."""
        return [record.started_at for record in self.records.values()]

    @property
    def margin(self) -> float:
        """By how much strategies may differ and be called alike: set by the plan, before any launch."""
        if self.plan is None or self.plan.empty or "margin" not in self.plan:
            return MARGIN
        return float(self.plan["margin"].iloc[0])


def read_results(folder: Path) -> Results:
    """Read `folder`. Raises UserError when it is missing, holds neither record nor plan, or holds a damaged table."""
    if not folder.is_dir():
        raise UserError(f"{folder} isn't a folder: run a comparison first, or name the folder of one.")
    records = read_presented(folder, Record)
    damaged = damaged_records(folder, Record, records)
    _refuse_copies(folder, records)
    plan = _read_plan(folder / "plan.csv")
    if not records and plan is None:
        nothing = f"{folder} holds no records: run a comparison first, or name the folder of one."
        raise UserError(next(iter(damaged.values()), nothing))
    return Results(
        *(folder, records, plan, _left_out(folder / "left_out.csv"), read_ceilings(folder)),
        replays=read_presented(folder / REPLAYS, CollectivesRecord),
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
    plans = sorted(folder.glob("*/plan.csv"), key=lambda plan: (plan.stat().st_mtime, plan))
    if not plans:
        raise UserError(f"{folder} holds no comparison: run one first, or name a folder of records with --results.")
    return plans[-1].parent


def _read_table(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    try:
        table = pd.read_csv(path, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} isn't a table that can be read ({error}): delete it or run the comparison.") from error
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise UserError(f"{path} has no column {', '.join(missing)}: delete it or run the comparison again.")
    return table


def _left_out(path: Path) -> dict[str, float]:
    """By strategy the minutes that a comparison would have needed with those that it had no time for."""
    if not path.exists():
        return {}
    table = _read_table(path, ("strategy", "minutes"))
    minutes = pd.to_numeric(table["minutes"], errors="coerce")
    if minutes.isna().any():
        raise UserError(f"{path} has minutes that aren't numbers: delete it or run the comparison again.")
    return dict(zip(table["strategy"].astype(str), minutes.astype(float), strict=True))


def _read_plan(path: Path) -> pd.DataFrame | None:
    """The plan, if any. Raises UserError where it has values of a wrong type, or a launch in two ways."""
    if not path.exists():
        return None
    plan, remedy = _read_table(path, PLAN_COLUMNS), "delete it or run the comparison again"
    if not plan.empty and plan["exchange"].dtype != bool:
        raise UserError(f"{path} has an exchange that is neither True nor False: {remedy}.")
    # Plans of one machine, and older ones, name no hosts.
    for name in {"workers", "repetition", "hosts", "margin"} & {*plan.columns}:
        if not (pd.to_numeric(plan[name], errors="coerce") > 0).all():
            raise UserError(f"{path} has a {name} that isn't a number above 0: {remedy}.")
    facts = ["launch", "strategy", "label", "preset", "scaling", "workers", "exchange", "repetition", "purpose"]
    facts += [name for name in ("hosts", "bandwidth_bits_per_second") if name in plan]
    launches = plan.drop_duplicates(facts)["launch"]
    if launches.duplicated().any():
        raise UserError(f"{path} plans {launches[launches.duplicated()].iloc[0]} in two ways: {remedy}.")
    return plan


def _refuse_copies(folder: Path, records: Mapping[str, Record]) -> None:
    """Raise UserError for a launch that is there twice."""
    found: dict[tuple, Path] = {}
    for name, record in records.items():
        path, seconds = folder / f"{name}.json", tuple(window.seconds for window in record.windows)
        launch = (record.name, record.world_size, record.started_at, record.time_to_first_step_s, seconds)
        if (first := found.setdefault(launch, path)) != path:
            raise UserError(f"{first} and {path} are records of the same launch, which counts once: delete one.")
