"""When synchronous SGD pays: what R workers do beside one of the baseline, and what the tutorials' formula says.

The formula is T_epoch = N / (R B) (T_comp + T_sync), so R workers would pay where T_sync / T_comp < R - 1. That takes
computing to be as fast beside R - 1 others as alone. T_comp(R) / T_comp(1) is called contention here.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from common.records.metrics import fewest_batch
from common.records.training import Record
from common.statistics.intervals import Interval
from reports.tables import pairs
from reports.tables.decomposition import Configuration, Step, Steps, configuration

PAYS, DOES_NOT_PAY = "pays", "doesn't pay"
SURELY_PAYS, SURELY_DOES_NOT = "surely pays", "surely doesn't"


@dataclass(frozen=True)
class Paying:
    """Whether one configuration of several workers pays. Intervals are over rounds; None where no round tells."""

    regime: str
    strategy: str
    workers: int
    oversubscribed: bool
    batch: int
    """Rows per step of each worker (B)."""
    ratio: Interval | None
    """The samples per second of all workers over those of one worker of the baseline."""
    measured: str
    """What that says: surely pays, surely doesn't, or why it doesn't tell."""
    contention: Interval | None
    """The step without exchange over the baseline's."""
    sync: Interval | None
    """Exposed communication in seconds (T_sync)."""
    sync_share: float
    """T_sync over T_comp(R), the step without exchange."""
    formula: str
    """Pays where that is below R - 1, else doesn't pay; empty where it isn't known."""
    with_contention: str
    """Pays where it is below R over contention, less 1, else doesn't pay; empty where that isn't known."""
    fewest_batch: float
    """Rows per worker from which on it would pay, extrapolated; infinite: from none."""


def table(launches: pd.DataFrame, cells: pd.DataFrame, steps: Steps, records: Mapping[str, Record]) -> list[Paying]:
    """One row for each synchronous data-parallel cell of several workers, under weak scaling, whose base was measured.

    `launches` and `cells` are those of `summaries`, `steps` those of `decompose`.
    """
    keys = zip(*(launches[name] for name in (*Configuration._fields, "launch")), strict=True)
    # Those whose workers each have rows of their own.
    shared = {Configuration(*key) for *key, launch in keys if records[launch].shards == records[launch].world_size}
    trains = cells["exchange"]
    computing = {configuration(cell): cell["seconds"] for cell in cells[~trains].to_dict("records")}
    of_several = trains & cells["synchronous"] & (cells["scaling"] == "weak") & (cells["workers"] > 1)
    told = cells[of_several & cells["base_samples_per_second"].notna()].to_dict("records")
    return [
        _account(cell, steps[configuration(cell)], computing.get(configuration(cell), math.nan))
        for cell in told
        if configuration(cell) in shared
    ]


def _account(cell: Mapping[str, object], step: Step, compute_seconds: float) -> Paying:
    """What the rounds say of rates, contention and exchange, and what the formula makes of that.

    Under weak scaling the ideal step is the baseline's.
    """
    workers, base_seconds = cell["workers"], cell["batch"] / cell["base_samples_per_second"]
    ratio = pairs.interval((workers * step.ideal["seconds"] / step.trained["seconds"]).dropna())
    contention = pairs.interval((step.computed["seconds"] / step.ideal["seconds"]).dropna())
    sync = pairs.interval(step.exposed)
    share = sync.median / compute_seconds if sync else math.nan
    fewest = math.nan
    if contention and sync:
        fewest = fewest_batch(cell["batch"], workers, base_seconds, contention.median, sync.median)
    return Paying(
        *configuration(cell),
        oversubscribed=cell["oversubscribed"],
        batch=cell["batch"],
        ratio=ratio,
        measured=pairs.side(ratio, 1, (SURELY_DOES_NOT, SURELY_PAYS)),
        contention=contention,
        sync=sync,
        sync_share=share,
        formula="" if math.isnan(share) else PAYS if share < workers - 1 else DOES_NOT_PAY,
        with_contention="" if math.isnan(fewest) else PAYS if fewest < cell["batch"] else DOES_NOT_PAY,
        fewest_batch=fewest,
    )
