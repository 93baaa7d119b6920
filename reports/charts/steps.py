"""The figure of what steps consist of: the ideal one, then what they take beyond it."""

import math
from collections.abc import Mapping

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from common.observations import numbers
from reports import blocks
from reports.blocks import DAGGER
from reports.charts import layout, style, svg

_HALO = [withStroke(linewidth=2.8, foreground=style.PAPER)]
"""What lets a line of ink stand out from whatever it crosses."""

_LONGEST_BAR = 2.5  # Times the median bar.
_BAR_PITCH, _MOST_BARS_HEIGHT = 4.4, 150.0  # Millimetres.
_LETTER = 1.25  # Millimetres.


def scaling(table: pd.DataFrame) -> bytes:
    """A bar for each strategy, a panel for each number of workers: the ideal step, then what it takes beyond it.

    `table` are the rows of `decomposition.parts` of one regime, with `products_seconds`, what the framework's products
    alone take, NaN where no probe tells; a triangle marks it. Parts below zero stand left of zero; a line marks the
    measured step, which is the sum of all. The bar of a strategy with more threads than cores is pale.
    """
    bars = table.groupby("workers")["strategy"].nunique()
    pitch = min(_BAR_PITCH, _MOST_BARS_HEIGHT / bars.sum())
    handles: list[layout.Handle] = []
    for part, (color, hatch) in style.PARTS.items():
        if part == "ideal" or (table["part"] == part).any():
            look = {"facecolor": color, "hatch": hatch, "edgecolor": style.INK, "linewidth": 0.3}
            handles.append(Patch(**look, label=part, gid=part))
    handles.append(layout.mark_handle("|", 7, 1.4, "measured step"))
    if table["products_seconds"].notna().any():
        handles.append(layout.mark_handle("^", 3.4, 0.6, "the framework's products alone"))
    with matplotlib.rc_context(style.SETTINGS | {"hatch.linewidth": 0.4}):
        figure, panels = layout.panels(
            len(bars),
            [pitch * count for count in bars],
            left=6 + _LETTER * min(style.LONGEST_NAME, table["strategy"].str.len().max()),
            between=0,
            right=14,
            grid="x",
            handles=handles,
        )
        for axes, (workers, rows) in zip(panels, table.groupby("workers"), strict=True):
            axes.set_title(blocks.workers(int(workers)), pad=3)
            svg.panel(axes, f"{blocks.workers(int(workers))}: milliseconds per step")
            _draw_bars(axes, rows)
        panels[-1].set_xlabel("milliseconds per step")
        return svg.svg(figure)


def _draw_parts(
    axes: Axes, cell: pd.DataFrame, place: float, about: Mapping[str, object], alpha: float
) -> tuple[float, float]:
    """A bar of the parts of one step, from the rows of `decomposition.parts` on it, and its ends, in milliseconds."""
    rows = {row["part"]: row for row in cell.to_dict("records")}
    rows["ideal"] = {"seconds": cell["ideal_seconds"].iloc[0]}
    spans, right = style.stacked(cell)
    for part, (start, end) in spans.items():
        if end - start >= style.LEAST_MILLISECONDS:
            color, hatch = style.PARTS[part]
            look = {"edgecolor": style.INK, "linewidth": 0.3, "hatch": hatch}
            [bar] = axes.barh(place, end - start, left=start, height=0.7, color=color, alpha=alpha, **look)
            row = rows[part]
            low, high, n = (row.get(name, math.nan) for name in ("low", "high", "n"))
            interval = numbers.interval(low, high, blocks.milliseconds) + ("" if math.isnan(low) else " ms")
            tip = {"part": part, "per step": f"{blocks.milliseconds(row['seconds'])} ms", "95 % interval": interval}
            tip |= {"n": blocks.DASH if math.isnan(n) else f"{n:.0f}"}
            svg.mark(bar, [part, about["strategy"]], dict(about) | tip)
    return min(0.0, *(start for start, _ in spans.values())), right


def _draw_bars(axes: Axes, rows: pd.DataFrame) -> None:
    """The bars of one number of workers, from the top; one that is far longer than most is cut."""
    groups = [(str(name), cell) for name, cell in rows.groupby("strategy")]
    lengths = [style.stacked(cell)[1] for _, cell in groups]
    limit, left = min(max(lengths), _LONGEST_BAR * float(np.median(lengths))), 0.0
    for place, (name, cell) in enumerate(groups):
        step = cell.iloc[0]
        is_oversubscribed = bool(step["oversubscribed"])
        about = {"strategy": name, "workers": f"{step['workers']}{DAGGER * is_oversubscribed}"}
        start, end = _draw_parts(axes, cell, place, about, alpha=0.4 if is_oversubscribed else 1.0)
        left = min(left, start)
        measured, products = 1000 * step["measured_seconds"], 1000 * step["products_seconds"]
        said = f"{blocks.number(measured)} ms"
        [line] = axes.plot([measured] * 2, [place - 0.42, place + 0.42], color=style.INK, linewidth=1.4)
        line.set(path_effects=_HALO, solid_capstyle="butt")
        svg.mark(line, [name], about | {"measured step": said, "launches (n)": step["measured_n"]})
        if not math.isnan(products):
            [triangle] = axes.plot(products, place + 0.36, "^", color=style.INK, markersize=3.8, clip_on=False)
            triangle.set(markerfacecolor=style.PAPER, markeredgewidth=0.7, zorder=4)
            svg.mark(triangle, [name], about | {"the framework's products alone": f"{blocks.number(products)} ms"})
        where = {"xytext": (5, 0), "textcoords": "offset points", "va": "center", "annotation_clip": False}
        number = axes.annotate(said + " »" * bool(end > limit), (min(end, limit), place), fontsize=6.2, **where)
        svg.mark(number, [name])
    axes.set_xlim(1.02 * left, 1.01 * limit)
    axes.set_ylim(len(groups) - 0.4, -0.6)
    oversubscribed = {name: bool(cell["oversubscribed"].iloc[0]) for name, cell in groups}
    names = [style.literal(style.shortened(name)) + DAGGER * flag for name, flag in oversubscribed.items()]
    axes.set_yticks(range(len(names)), names, fontsize=6.5)
    for label, (name, flag) in zip(axes.get_yticklabels(), oversubscribed.items(), strict=True):
        label.set_color(style.FAINT if flag else style.INK)
        svg.button(label, name)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.axvline(0, color=style.FAINT, linewidth=0.6)
