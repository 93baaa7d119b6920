"""The chapter on scaling: speed-up and efficiency of every strategy over the number of workers."""

import math
from functools import partial

import pandas as pd

from reports import blocks
from reports.charts import style
from reports.charts.curves import Line, Plot, curves
from reports.tables import summaries
from reports.tables.decomposition import is_distributed
from reports.tables.material import Material

_PAGE_HEIGHT, _MOST_PANELS = 195.0, 15  # Millimetres of the chapter's figure, and strategies that it has room for.


def section(material: Material) -> list[blocks.Block]:
    """A figure for each regime, the others' for the HTML page, and a sentence on what none can show.

    Left out are regimes that differ from one before in their batch alone, and have one number of workers of each
    strategy: that is a batch that was tried, and makes no curve.
    """
    parts: list[blocks.Block] = []
    drawn: set[str] = set()
    for regime in material.regimes:
        shown = summaries.with_exchange(material.cells, regime)
        any_batch = shown["regime_of_any_batch"].iloc[0]
        if any_batch in drawn and shown.groupby("strategy")["workers"].nunique().max() == 1:
            continue
        about = _of_regime(material, regime, shown)
        # The chapter's page has room for one figure.
        parts += [block | {"page_only": bool(drawn)} for block in about]
        drawn.add(any_batch)
    return parts or [blocks.text("No launch ended ok with a measurement, so nothing can be said of scaling.")]


def _of_regime(material: Material, regime: str, cells: pd.DataFrame) -> list[blocks.Block]:
    """What was measured in a regime and what its figure can't show, and the figure."""
    shown = summaries.over_fastest_links(cells)
    only = " Of several links the fastest." if len(shown) < len(cells) else ""
    # A base's own speed-up says nothing.
    known = shown[shown["base_samples_per_second"].notna() & is_distributed(shown)]
    name, machine = blocks.capitalized(material.names[regime]), shown["machine"].iloc[0]
    sentences = [f"{name}: {batch_in_words(shown)}, on {machine}."]
    for base, own in shown[shown["base_samples_per_second"].isna()].groupby("named_base"):
        names = blocks.some(sorted(own["strategy"].unique()))
        sentences.append(f"{base} wasn't measured, so there is no speed-up of {names}.")
    if known.empty:
        nothing = "Only strategies that distribute nothing were measured."
        sentences += [nothing] if len(sentences) == 1 else []
        return [blocks.text(" ".join(sentences))]
    if known["workers"].nunique() == 1:
        many = blocks.workers(int(known["workers"].iloc[0]))
        sentences.append(f"Only {many} of each strategy were measured: --workers 1 2 4 gives a curve.")
    names = in_order_of_speed(known)
    if len(names) > _MOST_PANELS:
        only += f" The fastest {_MOST_PANELS} of {len(names)} strategies."
        known = known[known["strategy"].isin(names[:_MOST_PANELS])]
    points = summaries.with_exchange(material.launches, regime)
    points = points[points["strategy"].isin(known["strategy"])]
    draw = partial(curves, plot(known, points), style.styles(material.colors))
    caption = (
        "Above speed-up over one worker of the base, below efficiency (speed-up per worker). Faint: a launch; lines "
        "join medians; upright: 95 % intervals; on grey and hollow: more threads than cores. "
        f"n = {blocks.span(known['n'])} launches.{only}"
    )
    alt = (
        "Two panels for each strategy: its speed-up and its efficiency over the number of workers, beside the ideal, "
        "the others' in grey. The table of cells has all numbers."
    )
    return [blocks.text(" ".join(sentences)), blocks.figure("scaling", draw, caption, alt, stacks=True)]


def oversubscribed_worlds(table: pd.DataFrame) -> list[int]:
    """The numbers of workers at which every strategy had more threads than the machine has cores."""
    every = table.groupby("workers")["oversubscribed"].all()
    return sorted(int(workers) for workers in every[every].index)


def in_order_of_speed(cells: pd.DataFrame) -> list[str]:
    """The strategies of one regime by their rate with the most workers that have a core each, then with fewer.

    A strategy that wasn't measured with so many stands below all that were.
    """
    over = oversubscribed_worlds(cells)
    order = sorted(cells["workers"].unique(), key=lambda count: (count in over, -count))
    rates = cells.pivot_table(index="strategy", columns="workers", values="samples_per_second")[order]
    return rates.sort_values(order, ascending=False, na_position="last").index.tolist()


def plot(cells: pd.DataFrame, launches: pd.DataFrame, height: float = _PAGE_HEIGHT) -> Plot:
    """Speed-up over the number of workers, and efficiency below it: a panel of each for every strategy.

    `cells` and `launches` are rows of one regime with exchange whose base was measured. The others' lines are grey.
    """
    over, names = oversubscribed_worlds(cells), in_order_of_speed(cells)
    base = cells.drop_duplicates("strategy").set_index("strategy")["base_samples_per_second"]
    points, medians, lines = [], [], []
    for measure in ("speed-up", "efficiency"):
        marks, own = (
            rows.assign(measure=measure, panel=rows["strategy"], series=rows["strategy"], x=rows["workers"])
            for rows in (launches, cells)
        )
        many = 1 if measure == "speed-up" else marks["workers"]
        points.append(marks.assign(value=marks["samples_per_second"] / marks["strategy"].map(base) / many))
        own["value"] = own["speed_up"] if measure == "speed-up" else own["efficiency"]
        total = own["value"] * own["seconds"]
        medians.append(own.assign(low=total / own["high_seconds"], high=total / own["low_seconds"]))
        ordered = {name: own[own["strategy"] == name].sort_values("x") for name in names}
        # NaN ends the part of each strategy.
        x, values = ([each for rows in ordered.values() for each in (*rows[name], math.nan)] for name in ("x", "value"))
        for name, rows in ordered.items():
            about = {"measure": measure, "panel": name}
            ideal = rows["x"] if measure == "speed-up" else [1] * len(rows)
            lines += [
                Line(**about, x=x, values=values, color=style.GREY, dashes="-", width=0.5, label="the others"),
                Line(**about, x=rows["x"], values=ideal, label="ideal: N times its base"),
            ]
    return Plot(
        launches=pd.concat(points),
        medians=pd.concat(medians).sort_values("series", key=lambda own: own.map(names.index), kind="stable"),
        lines=lines,
        x_label="workers",
        ticks={count: blocks.world(count, count in over) for count in cells["workers"].unique()},
        from_zero="efficiency",
        shaded_from=min(over, default=None),
        height=height,
    )


def batch_in_words(cells: pd.DataFrame) -> str:
    """The batch of the cells of one regime, and whose it is."""
    batch, is_weak = cells["batch"].iloc[0], cells["scaling"].iloc[0] == "weak"
    return f"{batch} rows per step for each worker" if is_weak else f"{batch} rows per step, shared by all workers"
