"""What a comparison plans, in tables beside its records: its launches, and the strategies that it had no time for."""

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from common.errors import UserError
from common.records.header import Amount, Count, Positive
from common.records.tables import read_rows
from common.statistics.paired import MARGIN

PLAN, LEFT_OUT = "plan.csv", "left_out.csv"


@dataclass(frozen=True, kw_only=True)
class PlannedRow:
    """A planned launch. Plans of earlier versions lack the columns below `order_seed`."""

    position: Count
    launch: str
    strategy: str
    label: str = ""
    preset: str
    scaling: str
    workers: Positive
    exchange: bool
    repetition: Positive
    purpose: str
    order_seed: int
    hosts: Positive = 1
    bandwidth_bits_per_second: Amount | None = None
    stage: str = "round"
    margin: Annotated[float, Meta(gt=0.0)] = MARGIN
    """By how much strategies may differ and be called alike."""


@dataclass(frozen=True)
class LeftOut:
    """A strategy that a comparison had no time for, and the minutes that it would have needed with it."""

    strategy: str
    minutes: float


def read_plan(folder: Path) -> list[PlannedRow] | None:
    """The planned launches, None without a plan. Raises UserError for a damaged plan, or one launch in two ways."""
    path = folder / PLAN
    if not path.exists():
        return None
    rows = read_rows(path, PlannedRow)
    ways = Counter(row.launch for row in {replace(row, position=0) for row in rows})
    for launch, count in ways.items():
        if count > 1:
            raise UserError(f"{path} plans {launch} in two ways: delete it or run the session again.")
    return rows


def read_left_out(folder: Path) -> dict[str, float]:
    """By strategy the minutes that would do, for those left out. Raises UserError for a damaged table."""
    path = folder / LEFT_OUT
    return {row.strategy: row.minutes for row in read_rows(path, LeftOut)} if path.exists() else {}
