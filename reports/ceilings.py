"""The frameworks' ceilings: how much of a step their own products and their own transport take, and what is theirs."""

import itertools
import math
from collections.abc import Mapping, Sequence

import pandas as pd

from common.records import ceiling
from common.records.ceiling import AS_TRAINED, Ceiling
from reports import blocks
from reports.blocks import Block
from reports.results import Results

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
    columns = ["framework", "preset", "rows", "product", "shape", "seconds", "gigaflops", "share"]
    return pd.DataFrame(rows, columns=columns)


def steps(results: Results, launches: pd.DataFrame, split: pd.DataFrame) -> pd.DataFrame:
    """Each base, and each strategy that was measured without exchange too, beside the ceiling of its framework.

    `products_seconds` are those of the products of one worker's step, `step_seconds` those of its step without
    exchange, the median over n launches; `exchange_seconds` are those of the family's exchange by itself, where its
    workers use the same transport, and `exposed_seconds` the strategy's own (`decomposition.split`).
    """
    computing = {
        (each.framework, each.preset, each.rows): ceiling.step_seconds(each)
        for each in _with_products(results.ceilings)
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
    columns = [*_STEP, "n", "step_seconds", "products_seconds", "exchange_seconds", "exposed_seconds"]
    return pd.DataFrame(beside, columns=columns).dropna(subset=["products_seconds"]).reset_index(drop=True)


def rates(ceilings: Sequence[Ceiling]) -> dict[tuple[str, str, int], float]:
    """GFLOP/s of all products of a step as strategies compute them, by framework, preset and rows."""
    return {(each.framework, each.preset, each.rows): ceiling.gigaflops(each) for each in _with_products(ceilings)}


def tried(ceilings: Sequence[Ceiling]) -> pd.DataFrame:
    """What a user could change, tried: all products of a step in another way, or with environment variables set.

    `gain` is by how much their rate is higher than that of the same framework left as it is, as a share.
    """
    usual, rows = rates(ceilings), []
    for each in ceilings:
        before = usual.get((each.framework, each.preset, each.rows))
        for way, changed in _changes(each).items() if before else ():
            rate = ceiling.gigaflops(each, way)
            known = {"framework": each.framework, "preset": each.preset, "rows": each.rows, "changed": changed}
            rows.append(known | {"gigaflops": rate, "usual": before, "gain": rate / before - 1})
    return pd.DataFrame(rows, columns=["framework", "preset", "rows", "changed", "gigaflops", "usual", "gain"])


def explanations(table: pd.DataFrame, regime: str) -> list[str]:
    """A sentence for each two bases of a regime whose steps differ because of their frameworks' products.

    `table` is that of `steps`. What the products explain is the difference of their times, beside the difference of the
    steps: at least the share `EXPLAINED` of it, and no more than it over that share, which would be no explanation.
    """
    bases = table[table["is_base"].astype(bool) & (table["regime"] == regime)]
    said = []
    for quick, slow in itertools.combinations(bases.sort_values("step_seconds").to_dict("records"), 2):
        longer = slow["step_seconds"] - quick["step_seconds"]
        by_products = slow["products_seconds"] - quick["products_seconds"]
        differ = slow["framework"] != quick["framework"] and longer > ALIKE * slow["step_seconds"]
        if differ and EXPLAINED * longer <= by_products <= longer / EXPLAINED:
            times = (slow["step_seconds"], longer, by_products)
            step, more, theirs = (f"{blocks.milliseconds(seconds)} ms" for seconds in times)
            said.append(
                f"{slow['strategy']}'s step of {step} is {more} longer than {quick['strategy']}'s, and "
                f"{slow['framework']}'s matrix products of these shapes alone take {theirs} longer than "
                f"{quick['framework']}'s: that difference is the frameworks', whoever distributes them."
            )
    return said


def story(ceilings: Sequence[Ceiling], table: pd.DataFrame, regime: str) -> list[Block]:
    """What the probes have told: which libraries computed, and what they explain; nothing where there was none.

    `table` is that of `steps`.
    """
    if not ceilings:
        return []
    explanation = (
        "A probe of each framework clocked, with nothing else going on, the float32 matrix products of one worker's "
        "step by the framework's own operations, on a worker's cores with its threads, each product by itself; and one "
        "all-reduce of a single buffer as large as the gradients, among as many workers as the rounds have. Each is a "
        "single launch (n = 1), and counts by its median window. Operands that are used again and again stay in the "
        "caches, so no strategy that computes by the same operations can be faster than this."
    )
    parts = [blocks.heading("The frameworks' ceilings", level=2), blocks.text(explanation)]
    said = [*explanations(table, regime), *_computing(ceilings), *_silent(ceilings)]
    return [*parts, *([blocks.items(said)] if said else [])]


def tables(ceilings: Sequence[Ceiling], table: pd.DataFrame, names: Mapping[str, str]) -> list[Block]:
    """The ceilings beside the strategies in `table` (`steps`), every product, and what was tried; nothing without any.

    `names` are those of the regimes.
    """
    shown = _step_table(table, names) + _product_table(products(ceilings)) + _tried_table(tried(ceilings))
    return [blocks.heading("Beside the frameworks' ceilings", level=2), *shown] if shown else []


def _as_they_are(ceilings: Sequence[Ceiling]) -> list[Ceiling]:
    """Those that ended well with the framework left as it is."""
    return [each for each in ceilings if each.status == "ok" and not each.variables]


def _with_products(ceilings: Sequence[Ceiling]) -> list[Ceiling]:
    return [each for each in _as_they_are(ceilings) if each.products]


def _measured(launches: pd.DataFrame, results: Results) -> pd.DataFrame:
    """Steps of bases, and of strategies without exchange: n launches, their median, a worker's rows."""
    if launches.empty:
        return pd.DataFrame(columns=[*_STEP, "n", "step_seconds"])
    undistributed = launches["bare_strategy"] == launches["named_base"]
    backends = launches["launch"].map({name: record.backend for name, record in results.records.items()})
    # A base has the rows of the whole batch; with weak scaling that is one worker's share as well.
    rows = launches["batch"].where(launches["scaling"] == "weak", launches["batch"] // launches["workers"])
    known = launches.assign(rows=rows, is_base=undistributed, backend=backends)
    groups = known[~known["exchange"].astype(bool) | undistributed].groupby(_STEP)["seconds"]
    return groups.agg(n="count", step_seconds="median").reset_index()


def _computing(ceilings: Sequence[Ceiling]) -> list[str]:
    """A sentence for each framework: which libraries and instruction sets computed."""
    told: dict[str, str] = {}
    for each in _with_products(ceilings):
        facts = "; ".join(f"{name}: {value}" for name, value in each.facts.items() if value)
        sets = ", ".join(each.instruction_sets) or "none of those that matter"
        told.setdefault(each.framework, f"{each.framework}: {facts}. The processor has {sets}.")
    return list(told.values())


def _changes(each: Ceiling) -> dict[str, str]:
    """What a probe has changed, by the way in which it computed then: one thing at a time."""
    if each.variables:
        return {AS_TRAINED: ", ".join(_variables(each))} if each.products else {}
    return {way: way for way in dict.fromkeys(product.way for product in each.products) if way != AS_TRAINED}


def _variables(each: Ceiling) -> list[str]:
    return [f"{name}={value}" for name, value in each.variables.items()]


def _silent(ceilings: Sequence[Ceiling]) -> list[str]:
    """A sentence for each probe that measured nothing."""
    said = []
    for each in ceilings:
        if each.status != "ok":
            changed = f" with {blocks.listed(_variables(each))}" if each.variables else ""
            said.append(f"The probe of {each.family}{changed} is {each.status}: {each.reason} (log: {each.log})")
    return said


def _step_table(table: pd.DataFrame, names: Mapping[str, str]) -> list[Block]:
    if table.empty:
        return []
    rows = [
        [
            *[row["strategy"], str(row["workers"]), names[row["regime"]], str(row["n"])],
            *[blocks.milliseconds(row[name]) for name in ("products_seconds", "step_seconds")],
            blocks.percent(row["products_seconds"] / row["step_seconds"]),
            *[blocks.milliseconds(row[name]) for name in ("exchange_seconds", "exposed_seconds")],
        ]
        for row in table.sort_values(["strategy", "regime", "workers"]).to_dict("records")
    ]
    columns = ["strategy", "workers", "regime", "n", "products alone, ms", "step without exchange, ms", "of the step"]
    columns += ["exchange alone, ms", "exposed, ms"]
    return [blocks.table(columns, rows, [], left=(0, 2))]


def _product_table(table: pd.DataFrame) -> list[Block]:
    if table.empty:
        return []
    rows = [
        [
            *[row["framework"], row["preset"], row["product"], row["shape"]],
            *[f"{row['gigaflops']:,.0f}", blocks.milliseconds(row["seconds"]), blocks.percent(row["share"])],
        ]
        for row in table.to_dict("records")
    ]
    columns = ["framework", "preset", "product", "rows by inputs by outputs", "GFLOP/s", "ms", "of all products"]
    return [blocks.table(columns, rows, [], left=(0, 1, 2, 3))]


def _tried_table(table: pd.DataFrame) -> list[Block]:
    if table.empty:
        return []
    rows = [
        [
            *[row["framework"], row["preset"], str(row["rows"]), row["changed"]],
            *[f"{row['gigaflops']:,.0f}", f"{row['usual']:,.0f}", blocks.signed_percent(row["gain"])],
        ]
        for row in table.to_dict("records")
    ]
    columns = ["framework", "preset", "rows", "changed", "GFLOP/s", "as it is", "gain"]
    text = "What a user could change, tried: the rate of all products of a step, each time with one thing changed."
    return [blocks.text(text), blocks.table(columns, rows, [], left=(0, 1, 3), wide={3: 1})]
