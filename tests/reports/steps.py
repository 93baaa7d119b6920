"""Launches whose steps take so many milliseconds, for the tests of what a step consists of."""

import dataclasses

import pandas as pd
from msgspec import structs

from common.contract.task import PRESETS
from common.records.training import Record
from tests.changes import changed
from tests.reports.records import MadeUpOptions, make_record, named

DRIFT = (0.0, 1.0, 5.0, 2.0, 9.0, 3.0)
"""How many per cent slower the machine is in each of six rounds."""


def launch(
    milliseconds: float,
    name: str = "amber_ring",
    workers: int = 2,
    *,
    waits: float | None = None,
    strong: bool = False,
    batch: int = 64,
    preset: str = "digits",
    rank_factors: tuple[float, ...] | None = None,
    **options: object,
) -> Record:
    """A launch of so many milliseconds a step, of which it `waits` so many for its rows."""
    # Windows of as many rows, as whoever tries another batch chooses them.
    lengths = {"steps": 60 * 64 // batch, "warmup_steps": 20 * 64 // batch, "window_steps": 10 * 64 // batch}
    scaling = "strong" if strong else "weak"
    task = dataclasses.replace(PRESETS[preset], scaling=scaling, workers=workers, batch=batch, **lengths)
    record = make_record(
        name, workers, (milliseconds,) * 3, task, options=MadeUpOptions(**options), rank_factors=rank_factors
    )
    if waits is None:
        return record
    waited = [structs.replace(window, input_seconds=waits * window.steps / 1000) for window in record.windows]
    return changed(record, windows=waited)


def base(milliseconds: float = 2.0, **facts: object) -> Record:
    return launch(milliseconds, "amber_single", 1, **facts)


def alone(milliseconds: float, name: str = "amber_ring", **facts: object) -> Record:
    return launch(milliseconds, name, exchange=False, **facts)


def plan_of(records: list[Record], rounds: list[int]) -> pd.DataFrame:
    """A plan that has these launches, by the names that `named` gives them, in these rounds."""
    return pd.DataFrame({"launch": list(named(*records)), "repetition": rounds})


def rounds(
    of_base: float | None,
    step: float,
    alone: float | None = None,
    n: int = 6,
    name: str = "amber_ring",
    workers: int = 2,
    batch: int = 64,
) -> list[Record]:
    """n rounds of the base, the strategy and the strategy without exchange; what takes no time has no launch."""
    records = []
    for factor in (1 + per_cent / 100 for per_cent in DRIFT[:n]):
        records += [base(factor * of_base, batch=batch)] if of_base else []
        records.append(launch(factor * step, name, workers, batch=batch))
        records += [launch(factor * alone, name, workers, exchange=False)] if alone else []
    return records
