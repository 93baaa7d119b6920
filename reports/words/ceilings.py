"""What the frameworks' ceilings explain of a step, and the tables of what the probes measured."""

import itertools
from collections.abc import Mapping, Sequence

import pandas as pd

from common.records.ceiling import Ceiling
from reports import blocks
from reports.blocks import Block
from reports.tables.ceilings import ALIKE, EXPLAINED, products, tried, variables, with_products
from reports.tables.material import Material


def explanations(table: pd.DataFrame, regime: str) -> list[str]:
    """A sentence for each two bases of a regime whose steps differ because of their frameworks' products.

    `table` is that of `steps`. What the products explain is the difference of their times, beside the difference of the
    steps: at least the share `EXPLAINED` of it, and no more than it over that share, which would be no explanation.
    """
    bases = table[table["is_base"] & (table["regime"] == regime)]
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


def story(material: Material) -> list[Block]:
    """What the probes have told: which libraries computed, and what they explain; nothing where there was none."""
    ceilings = material.results.ceilings
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
    first = material.regimes[0] if material.regimes else ""
    said = [*explanations(material.ceilings, first), *_computing(ceilings), *_silent(ceilings)]
    return [*parts, *([blocks.items(said)] if said else [])]


def tables(material: Material) -> list[Block]:
    """The ceilings beside the strategies, every product, and what was tried; nothing without any."""
    ceilings = material.results.ceilings
    shown = _step_table(material.ceilings, material.names)
    shown += _product_table(products(ceilings)) + _tried_table(tried(ceilings))
    return [blocks.heading("Beside the frameworks' ceilings", level=2), *shown] if shown else []


def _computing(ceilings: Sequence[Ceiling]) -> list[str]:
    """A sentence for each framework: which libraries and instruction sets computed."""
    told: dict[str, str] = {}
    for each in with_products(ceilings):
        facts = "; ".join(f"{name}: {value}" for name, value in each.facts.items() if value)
        sets = ", ".join(each.instruction_sets) or "none of those that matter"
        told.setdefault(each.framework, f"{each.framework}: {facts}. The processor has {sets}.")
    return list(told.values())


def _silent(ceilings: Sequence[Ceiling]) -> list[str]:
    """A sentence for each probe that measured nothing."""
    said = []
    for each in ceilings:
        if each.status != "ok":
            changed = f" with {blocks.listed(variables(each))}" if each.variables else ""
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
