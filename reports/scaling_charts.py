"""Charts of what a step consists of: the ideal one, then what it takes beyond it."""

import math
from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd

from reports import blocks, chart_parts
from reports.chart_parts import (
    INK,
    NUMBERS_PIXELS,
    PAPER,
    ROW_PIXELS,
    SHAPES,
    SOLID,
    Chart,
    Key,
    Panel,
    faded,
    number_axis,
    rounded,
    told,
)
from reports.charts import steps as scaling_figures
from reports.charts import style as figures

OF_A_PART = {"part": "key", "per step": "said", "95 % interval": "interval", "n": "n"}
"""The tooltip of a part, from the columns of `divided`."""


def scaling(table: pd.DataFrame) -> Chart:
    """A bar for each strategy, a panel for each number of workers: the ideal step, then what it takes beyond it."""
    data, panels = {"bars": [], "steps": []}, []
    for count, rows in table.groupby("workers"):
        bars, steps = _stacked(rows)
        data["bars"] += bars
        data["steps"] += steps
        ends = [step["end"] for step in steps]
        limit = min(max(ends), scaling_figures.LONGEST_BAR * float(np.median(ends)))
        for step in steps:
            step |= {"place": min(step["end"], limit), "said": step["said"] + " »" * (step["end"] > limit)}
        domain = [1.02 * min(bar["start"] for bar in bars), 1.01 * limit]
        title = f"{blocks.workers(int(count))}: milliseconds per step"
        panels.append(Panel(title, _bars(int(count), len(steps), domain)))
    keys = [*part_keys(data["bars"]), Key("measured step", "interval", INK, chooses=False)]
    if table["products_seconds"].notna().any():
        keys.append(Key("the framework's products alone", "mark", INK, "^", chooses=False))
    return Chart(panels, keys, data, columns=1)


def divided(cell: pd.DataFrame) -> tuple[list[dict[str, object]], float]:
    """The bars of one step's parts, from the rows of `scaling.table` on it, and their right end in milliseconds."""
    found = {row["part"]: row for row in cell.to_dict("records")}
    found["ideal"] = {"seconds": cell["ideal_seconds"].iloc[0]}
    spans, right = figures.stacked(cell)
    bars = [
        {"key": part, "color": figures.PARTS[part][0], "start": rounded(start), "end": rounded(end)}
        | _of_part(found[part])
        for part, (start, end) in spans.items()
        if end - start >= figures.LEAST_MILLISECONDS
    ]
    return bars, right


def part_keys(bars: Sequence[Mapping[str, object]]) -> list[Key]:
    """The legend of the parts that are drawn, in their order."""
    drawn = {bar["key"] for bar in bars}
    return [Key(part, "bar", color) for part, (color, _) in figures.PARTS.items() if part in drawn]


def _stacked(rows: pd.DataFrame) -> tuple[list[dict], list[dict]]:
    """The parts of every bar, and every bar's step."""
    bars, steps = [], []
    for name, own in rows.groupby("strategy"):
        cell = own.iloc[0]
        about = {"strategy": name + "\N{DAGGER}" * bool(cell["oversubscribed"]), "workers": int(cell["workers"])}
        about["opacity"] = 0.45 if cell["oversubscribed"] else 1
        parts, right = divided(own)
        bars += [about | part for part in parts]
        measured, products = 1000 * cell["measured_seconds"], 1000 * cell["products_seconds"]
        said = {"said": f"{blocks.number(measured)} ms", "n": int(cell["measured_n"])}
        marks = {"end": rounded(right), "measured": rounded(measured), "products": rounded(products)}
        steps.append(about | said | marks | {"products_said": f"{blocks.number(products)} ms"})
    return bars, steps


def _of_part(row: Mapping[str, object]) -> dict[str, object]:
    """A part of a step as it's written."""
    said = {"said": f"{blocks.milliseconds(row['seconds'])} ms".replace("-", "\N{MINUS SIGN}")}
    n = row.get("n", math.nan)
    said["n"] = blocks.DASH if math.isnan(n) else f"{n:.0f}"
    low, high = (row.get(end, math.nan) for end in ("low", "high"))
    interval = f"{blocks.interval_in_milliseconds(low, high)} ms".replace("-", "\N{MINUS SIGN}")
    return said | {"interval": blocks.DASH if math.isnan(low) else interval}


def _bars(workers: int, rows: int, domain: Sequence[float]) -> dict[str, object]:
    """The bars of one number of workers; one that is far longer than most is cut."""
    scale, axis = alt.Scale(domain=[*domain], nice=False), number_axis(tickCount=8)
    x, y = alt.X("start:Q", title=None, scale=scale, axis=axis), chart_parts.rows("strategy:N", None)
    bars, steps = (chart_parts.table(name, workers=workers) for name in ("bars", "steps"))
    about = {"strategy": "strategy", "workers": "workers"}
    measured = about | {"measured step": "said", "launches (n)": "n"}
    products = about | {"the framework's products alone": "products_said"}
    triangles = steps.mark_point(clip=True, shape=SHAPES["^"], size=40, fill=PAPER, stroke=INK, yOffset=7)
    layers = [
        bars.mark_bar(clip=True, stroke=INK, strokeWidth=0.4, opacity=faded("datum.opacity")).encode(
            x=x, x2=alt.X2("end:Q"), y=y, fill=SOLID, tooltip=told(about | OF_A_PART)
        ),
        steps.mark_tick(clip=True, thickness=2.5, color=INK).encode(x=alt.X("measured:Q"), y=y, tooltip=told(measured)),
        triangles.encode(x=alt.X("products:Q"), y=y, tooltip=told(products)),
        steps.mark_text(align="left", dx=6).encode(x=alt.X("place:Q"), y=y, text=alt.Text("said:N")),
    ]
    return chart_parts.specification(layers, ROW_PIXELS * rows, right=NUMBERS_PIXELS)
