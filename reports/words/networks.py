"""The chapter on networks: for which of them which strategy pays, over operations per byte of gradient."""

import math
from collections.abc import Mapping
from functools import partial

import pandas as pd

from common.observations import numbers
from reports import blocks
from reports.charts import style
from reports.charts.curves import Line, Plot, curves
from reports.tables.material import Material

_MEASURE = "speed-up"
_HEIGHT = 130.0  # Millimetres: so the page is filled.


def section(material: Material) -> list[blocks.Block]:
    """A sentence for each strategy, and the figure; nothing where fewer networks were measured than make a line."""
    rows = material.networks
    if rows.empty:
        return []
    about = (
        "A network has so many operations in a worker's step for each byte of gradients that its workers exchange. "
        "Those with many keep workers computing; those with few keep them waiting."
    )
    sentences = [_sentence(group) for _, group in rows.groupby(["strategy", "workers"], sort=False)]
    caption = (
        "Speed-up over one worker of the base, by operations per byte of gradient. Faint: a launch; lines join "
        "medians; upright: 95 % intervals; thin: R / (c + k / x), fitted to each strategy's networks. "
        f"n = {blocks.span(rows['n'])} launches."
    )
    alt = "A panel for each number of workers: the speed-up of each strategy over the operations per byte of gradient."
    looks = style.styles(material.colors)
    draw = partial(curves, _plot(rows, material.launches, looks), looks)
    return [
        blocks.heading("For which network it pays", level=2),
        blocks.text(about),
        blocks.items(sentences),
        blocks.figure("networks", draw, caption, alt, stacks=True),
    ]


def _sentence(rows: pd.DataFrame) -> str:
    """For which networks one strategy with one number of workers pays, and from where on by its line."""
    first = rows.iloc[0]
    measured = {
        "pays for": rows[rows["low"] > 1],
        "doesn't for": rows[rows["high"] < 1],
        "can't be told for": rows[~((rows["low"] > 1) | (rows["high"] < 1))],
    }
    parts = [f"{words} {blocks.some(sorted(each['network']))}" for words, each in measured.items() if len(each)]
    line = ""
    if not math.isnan(first["pays_from"]):
        line = f"; by its line from {numbers.number(first['pays_from'])} operations per byte on"
    elif rows["line"].notna().any():
        line = "; by its line never"
    return f"{first['strategy']} with {blocks.workers(first['workers'])} {', '.join(parts)}{line}."


def _plot(rows: pd.DataFrame, launches: pd.DataFrame, looks: Mapping[str, style.Style]) -> Plot:
    keys = ["regime", "strategy", "workers"]
    facts = [*keys, "operations_per_byte", "network", "base_samples_per_second"]
    points = launches[launches["exchange"]].merge(rows[facts], on=keys)
    points["speed_up"] = points["samples_per_second"] / points["base_samples_per_second"]
    lines, ends = list[Line](), [rows["operations_per_byte"].min(), rows["operations_per_byte"].max()]
    for workers, here in rows.groupby("workers"):
        panel = blocks.workers(workers)
        lines.append(Line(measure=_MEASURE, panel=panel, x=ends, values=[1, 1], label="one worker of the base"))
        for strategy, own in here.dropna(subset=["line"]).groupby("strategy"):
            look = {"color": style.color_of(strategy, looks), "dashes": (0, (4, 2)), "width": 0.6, "key": strategy}
            x = own["operations_per_byte"]
            lines.append(Line(measure=_MEASURE, panel=panel, x=x, values=own["line"], label="fitted line", **look))
    ticks = rows.drop_duplicates("operations_per_byte").set_index("operations_per_byte")["network"].sort_index()
    # Every other name stands lower, since two networks can be near each other.
    words = {x: "\n" * (place % 2) + f"{name}: {numbers.number(x)}" for place, (x, name) in enumerate(ticks.items())}
    medians = _marks(rows).assign(low=rows["low"], high=rows["high"])
    about = {"x_label": "operations per byte of gradient", "height": _HEIGHT}
    return Plot(launches=_marks(points), medians=medians, lines=lines, ticks=words, **about)


def _marks(rows: pd.DataFrame) -> pd.DataFrame:
    panels, x = rows["workers"].map(blocks.workers), rows["operations_per_byte"]
    return rows.assign(measure=_MEASURE, panel=panels, series=rows["strategy"], x=x, value=rows["speed_up"])
