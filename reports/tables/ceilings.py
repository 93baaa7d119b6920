"""The frameworks' ceilings: how much of a step their own products and their own transport take."""

import math
from collections.abc import Mapping

import pandas as pd

from common.records import ceiling
from reports.tables import columns
from reports.tables.results import Results

EXPLAINED = 0.5
"""From this share of the difference between two bases on, it is said to come from their frameworks' products."""

ALIKE = 0.05
"""By this share of the longer step two bases may differ without a reason being looked for."""

_STEP = ["regime", "preset", "strategy", "family", "framework", "backend", "workers", "rows", "is_base"]


def steps(results: Results, launches: pd.DataFrame) -> pd.DataFrame:
    """Each base, and each strategy that was measured without exchange too, beside the ceiling of its framework."""
    # With the framework left as it is.
    probes = [each for each in results.ceilings if each.status == "ok" and not each.variables]
    computing = {
        (each.framework, each.preset, each.rows): ceiling.step_seconds(each) for each in probes if each.products
    }
    exchanging = {
        (each.family, each.preset, each.world_size, each.backend): ceiling.seconds_of(each.exchange)
        for each in probes
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


def probes(results: Results) -> pd.DataFrame:
    """What each probe clocked: its products in every way, and its exchange; or why it measured nothing."""
    rows = []
    for each in results.ceilings:
        about = {name: getattr(each, name) for name in ("framework", "family", "preset", "rows", "reason")}
        about |= {"workers": each.world_size, "variables": _joined(each.variables), "exchanged_bytes": math.nan}
        about["facts"] = _joined(each.facts | {"instruction sets": " ".join(each.instruction_sets)})
        ways = dict.fromkeys(product.way for product in each.products)
        rows += [
            about
            | {"operation": f"products, {way}", "seconds": ceiling.step_seconds(each, way)}
            | {"gigaflops": ceiling.gigaflops(each, way)}
            for way in ways
        ]
        if each.exchange or not ways:
            seconds = ceiling.seconds_of(each.exchange) if each.exchange else math.nan
            rows.append(
                about | {"operation": each.operation, "seconds": seconds, "exchanged_bytes": each.exchanged_bytes}
            )
    return columns.table("probes", rows)


def _joined(facts: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in facts.items() if value)
