"""The frameworks' ceilings: how much of a step their own products and their own transport take."""

import math

import pandas as pd

from common.records import ceiling
from reports.tables import columns
from reports.tables.results import Results

_STEP = ["regime", "preset", "strategy", "family", "framework", "backend", "workers", "rows", "is_base"]


def table(results: Results, launches: pd.DataFrame) -> pd.DataFrame:
    """Each base, and each strategy that was measured without exchange too, beside the ceiling of its framework."""
    # With the framework left as it is.
    good = [each for each in results.ceilings if each.status == "ok" and not each.variables]
    computing = {(each.framework, each.preset, each.rows): ceiling.step_seconds(each) for each in good if each.products}
    exchanging = {
        (each.family, each.preset, each.world_size, each.backend): ceiling.seconds_of(each.exchange)
        for each in good
        if each.exchange
    }
    undistributed = launches["bare_strategy"] == launches["named_base"]
    backends = launches["launch"].map({name: record.backend for name, record in results.records.items()})
    # A base has the rows of the whole batch; with weak scaling that is one worker's share as well.
    rows = launches["batch"].where(launches["scaling"] == "weak", launches["batch"] // launches["workers"])
    known = launches.assign(rows=rows, is_base=undistributed, backend=backends)
    groups = known[~known["exchange"] | undistributed].groupby(_STEP)["seconds"]
    measured = groups.agg(n="count", step_seconds="median").reset_index()
    products = zip(measured["framework"], measured["preset"], measured["rows"], strict=True)
    transports = zip(measured["family"], measured["preset"], measured["workers"], measured["backend"], strict=True)
    measured["products_seconds"] = [computing.get(key, math.nan) for key in products]
    measured["exchange_seconds"] = [exchanging.get(key, math.nan) for key in transports]
    return columns.table("ceilings", measured.dropna(subset=["products_seconds"]))
