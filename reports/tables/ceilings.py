"""The frameworks' ceilings: how much of a step their own products and their own transport take."""

import math
from collections.abc import Sequence

import pandas as pd

from common.records import ceiling
from common.records.ceiling import AS_TRAINED, Ceiling
from reports.tables import columns
from reports.tables.results import Results

EXPLAINED = 0.5
"""From this share of the difference between two bases on, it is said to come from their frameworks' products."""

ALIKE = 0.05
"""By this share of the longer step two bases may differ without a reason being looked for."""

_STEP = ["regime", "preset", "strategy", "family", "framework", "backend", "workers", "rows", "is_base"]


def products(ceilings: Sequence[Ceiling]) -> pd.DataFrame:
    """One row for each product of a step, of each framework, preset and number of rows, as strategies compute it.

    `shape` is rows by inputs by outputs; `share` is that of the time of all products of the step.
    """
    rows = []
    for each in _as_they_are(ceilings):
        for product in each.products:
            if product.way == AS_TRAINED:
                seconds = ceiling.seconds_of(product.windows)
                shape = f"{product.rows} by {product.inputs} by {product.outputs}"
                known = {"framework": each.framework, "preset": each.preset, "rows": each.rows}
                known |= {"product": f"layer {product.layer}, {product.kind}", "shape": shape, "seconds": seconds}
                rate = product.operations / seconds / 1e9
                rows.append(known | {"gigaflops": rate, "share": seconds / ceiling.step_seconds(each)})
    names = ["framework", "preset", "rows", "product", "shape", "seconds", "gigaflops", "share"]
    return pd.DataFrame(rows, columns=names)


def steps(results: Results, launches: pd.DataFrame, split: pd.DataFrame) -> pd.DataFrame:
    """Each base, and each strategy that was measured without exchange too, beside the ceiling of its framework."""
    computing = {
        (each.framework, each.preset, each.rows): ceiling.step_seconds(each) for each in with_products(results.ceilings)
    }
    exchanging = {
        (each.family, each.preset, each.world_size, each.backend): ceiling.seconds_of(each.exchange)
        for each in _as_they_are(results.ceilings)
        if each.exchange
    }
    exposed = {
        (row["regime"], row["workers"], row["strategy"]): row["exposed_seconds"] for row in split.to_dict("records")
    }
    beside = []
    for row in _measured(launches, results).to_dict("records"):
        known = {"products_seconds": computing.get((row["framework"], row["preset"], row["rows"]), math.nan)}
        transport = (row["family"], row["preset"], row["workers"], row["backend"])
        known["exchange_seconds"] = exchanging.get(transport, math.nan)
        known["exposed_seconds"] = exposed.get((row["regime"], row["workers"], row["strategy"]), math.nan)
        beside.append(row | known)
    return columns.table("ceilings", beside).dropna(subset=["products_seconds"]).reset_index(drop=True)


def tried(ceilings: Sequence[Ceiling]) -> pd.DataFrame:
    """What a user could change, tried: all products of a step in another way, or with environment variables set.

    `gain` is by how much their rate is higher than that of the same framework left as it is, as a share.
    """
    as_they_are = {(each.framework, each.preset, each.rows): each for each in with_products(ceilings)}
    usual, rows = {key: ceiling.gigaflops(each) for key, each in as_they_are.items()}, []
    for each in ceilings:
        before = usual.get((each.framework, each.preset, each.rows))
        for way, changed in _changes(each).items() if before else ():
            rate = ceiling.gigaflops(each, way)
            known = {"framework": each.framework, "preset": each.preset, "rows": each.rows, "changed": changed}
            rows.append(known | {"gigaflops": rate, "usual": before, "gain": rate / before - 1})
    return pd.DataFrame(rows, columns=["framework", "preset", "rows", "changed", "gigaflops", "usual", "gain"])


def _as_they_are(ceilings: Sequence[Ceiling]) -> list[Ceiling]:
    """Those that ended well with the framework left as it is."""
    return [each for each in ceilings if each.status == "ok" and not each.variables]


def with_products(ceilings: Sequence[Ceiling]) -> list[Ceiling]:
    return [each for each in _as_they_are(ceilings) if each.products]


def _measured(launches: pd.DataFrame, results: Results) -> pd.DataFrame:
    """Steps of bases, and of strategies without exchange: n launches, their median, a worker's rows."""
    undistributed = launches["bare_strategy"] == launches["named_base"]
    backends = launches["launch"].map({name: record.backend for name, record in results.records.items()})
    # A base has the rows of the whole batch; with weak scaling that is one worker's share as well.
    rows = launches["batch"].where(launches["scaling"] == "weak", launches["batch"] // launches["workers"])
    known = launches.assign(rows=rows, is_base=undistributed, backend=backends)
    groups = known[~known["exchange"] | undistributed].groupby(_STEP)["seconds"]
    return groups.agg(n="count", step_seconds="median").reset_index()


def _changes(each: Ceiling) -> dict[str, str]:
    """What a probe has changed, by the way in which it computed then: one thing at a time."""
    if each.variables:
        return {AS_TRAINED: ", ".join(variables(each))} if each.products else {}
    return {way: way for way in dict.fromkeys(product.way for product in each.products) if way != AS_TRAINED}


def variables(each: Ceiling) -> list[str]:
    return [f"{name}={value}" for name, value in each.variables.items()]
