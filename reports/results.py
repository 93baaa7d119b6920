"""A results folder as the report reads it: every record, and the plan of the comparison where there is one."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from common.errors import UserError
from common.measurement.record import Record, read_records

PLAN_COLUMNS = (
    *("position", "launch", "strategy", "label", "preset", "scaling", "workers", "exchange", "repetition", "purpose"),
    "order_seed",
)


@dataclass(frozen=True)
class Results:
    """All records of one folder by their files' stems, and the planned launches (None without a plan)."""

    folder: Path
    records: dict[str, Record]
    plan: pd.DataFrame | None


def read_results(folder: Path) -> Results:
    """Read `folder`. Raises UserError when it is missing, holds neither record nor plan, or holds a damaged file."""
    if not folder.is_dir():
        raise UserError(f"{folder} isn't a folder: run the comparison first, or name its folder with --results.")
    records = {path.stem: record for path, record in read_records(folder).items()}
    plan_file = folder / "plan.csv"
    plan = _read_plan(plan_file) if plan_file.exists() else None
    if not records and plan is None:
        raise UserError(f"{folder} holds no records: run the comparison first, or name its folder with --results.")
    return Results(folder, records, plan)


def newest_comparison(folder: Path) -> Path:
    """The folder in `folder` whose plan was written last. Raises UserError when none has a plan."""
    plans = sorted(folder.glob("*/plan.csv"), key=lambda plan: (plan.stat().st_mtime, plan))
    if not plans:
        raise UserError(f"{folder} holds no comparison: run one first, or name a folder of records with --results.")
    return plans[-1].parent


def _read_plan(path: Path) -> pd.DataFrame:
    try:
        plan = pd.read_csv(path, keep_default_na=False)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} isn't a plan that can be read ({error}): delete it or run the comparison.") from error
    missing = [name for name in PLAN_COLUMNS if name not in plan.columns]
    if missing:
        raise UserError(f"{path} has no column {', '.join(missing)}: delete it or run the comparison again.")
    return plan
