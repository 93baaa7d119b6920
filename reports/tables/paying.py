"""When synchronous SGD pays: what R workers do beside one of the baseline, and what the tutorials' formula says.

The formula is T_epoch = N / (R B) (T_comp + T_sync), so R workers would pay where T_sync / T_comp < R - 1. That takes
computing to be as fast beside R - 1 others as alone. T_comp(R) / T_comp(1) is called contention here.
"""

import math
from collections.abc import Mapping

import pandas as pd

from common.records.metrics import fewest_batch
from common.records.training import Record
from reports.tables import columns, pairs
from reports.tables.decomposition import Step, StepKey, Steps, configuration

PAYS, DOES_NOT_PAY = "pays", "doesn't pay"
SURELY_PAYS, SURELY_DOES_NOT = "surely pays", "surely doesn't"


def table(launches: pd.DataFrame, cells: pd.DataFrame, steps: Steps, records: Mapping[str, Record]) -> pd.DataFrame:
    """One row for each synchronous data-parallel cell of several workers, under weak scaling, whose base was measured.

    `launches` and `cells` are those of `summaries`, `steps` those of `decompose`.
    """
    keys = zip(*(launches[name] for name in (*StepKey._fields, "launch")), strict=True)
    # Those whose workers each have rows of their own.
    shared = {StepKey(*key) for *key, launch in keys if records[launch].shards == records[launch].world_size}
    trains = cells["exchange"]
    computing = {configuration(cell): cell["seconds"] for cell in cells[~trains].to_dict("records")}
    of_several = trains & cells["synchronous"] & (cells["scaling"] == "weak") & (cells["workers"] > 1)
    told = cells[of_several & cells["base_samples_per_second"].notna()].to_dict("records")
    rows = [
        _account(cell, steps[configuration(cell)], computing.get(configuration(cell), math.nan))
        for cell in told
        if configuration(cell) in shared
    ]
    return columns.table("paying", rows)


def _account(cell: Mapping[str, object], step: Step, compute_seconds: float) -> dict[str, object]:
    """What the rounds say of rates, contention and exchange, and what the formula makes of that.

    Under weak scaling the ideal step is the baseline's.
    """
    workers, base_seconds = cell["workers"], cell["batch"] / cell["base_samples_per_second"]
    ratio = (workers * step.ideal["seconds"] / step.trained["seconds"]).dropna()
    contention = (step.computed["seconds"] / step.ideal["seconds"]).dropna()
    sync_seconds = step.exposed.median()
    share, fewest = sync_seconds / compute_seconds, math.nan
    if len(contention) and len(step.exposed):
        fewest = fewest_batch(cell["batch"], workers, base_seconds, contention.median(), sync_seconds)
    return {
        **cell,
        **pairs.columns_of("ratio", ratio),
        "verdict": pairs.side(pairs.interval(ratio), 1, (SURELY_DOES_NOT, SURELY_PAYS)),
        **pairs.columns_of("contention", contention),
        **pairs.columns_of("sync_seconds", step.exposed),
        "sync_share": share,
        "by_formula": "" if math.isnan(share) else PAYS if share < workers - 1 else DOES_NOT_PAY,
        "with_contention": "" if math.isnan(fewest) else PAYS if fewest < cell["batch"] else DOES_NOT_PAY,
        "fewest_batch": fewest,
    }
