"""The figure of what steps consist of: the ideal one, then what they take beyond it."""

import math
from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from reports import blocks
from reports.charts import style

LONGEST_BAR = 2.5  # Times the median bar.

_BAR_PITCH, _MOST_BARS_HEIGHT = 4.4, 150.0  # Millimetres.


def scaling(table: pd.DataFrame) -> bytes:
    """A bar for each strategy, a panel for each number of workers: the ideal step, then what it takes beyond it.

    `table` are the rows of `scaling.table` of one regime, with `products_seconds`, what the framework's products alone
    take, NaN where no probe tells; a triangle marks it. Parts below zero stand left of zero; a line marks the
    measured step, which is the sum of all. The bar of a strategy with more threads than cores is pale.
    """
    bars = table.groupby("workers")["strategy"].nunique()
    pitch = min(_BAR_PITCH, _MOST_BARS_HEIGHT / bars.sum())
    shown = {"ideal", *table["part"]}
    handles = [_part_handle(part) for part in style.PARTS if part in shown]
    handles.append(style.mark_handle("|", 7, 1.4, "measured step"))
    if table["products_seconds"].notna().any():
        handles.append(style.mark_handle("^", 3.4, 0.6, "the framework's products alone"))
    below = style.legend_height(handles) + 4
    height = pitch * bars.sum() + 11 * len(bars) + below
    left = (6 + 1.25 * min(style.LONGEST_NAME, table["strategy"].str.len().max())) * style.MILLIMETRE / style.WIDTH
    with matplotlib.rc_context(style.SETTINGS | {"hatch.linewidth": 0.4}):
        figure = Figure(figsize=(style.WIDTH, height * style.MILLIMETRE))
        top = height
        for workers, rows in table.groupby("workers"):
            bottom = top - 5 - pitch * bars[workers]
            axes = figure.add_axes((left, bottom / height, 0.9 - left, pitch * bars[workers] / height))
            axes.set_title(f"{workers} worker{'s' if workers > 1 else ''}", pad=3)
            _draw_bars(axes, rows)
            top = bottom - 6
        axes.set_xlabel("milliseconds per step")
        style.draw_legend(figure, handles)
        return style.svg(figure)


def _draw_bars(axes: Axes, rows: pd.DataFrame) -> None:
    """The bars of one number of workers, from the top; one that is far longer than most is cut."""
    bars = [(name, own.iloc[0], *style.stacked(own)) for name, own in rows.groupby("strategy")]
    ends = [end for *_, end in bars]
    limit = min(max(ends), LONGEST_BAR * float(np.median(ends)))
    for position, (_, cell, spans, end) in enumerate(bars):
        _draw_bar(axes, position, spans, alpha=0.4 if cell["oversubscribed"] else 1.0)
        measured = 1000 * cell["measured_seconds"]
        axes.plot([measured] * 2, [position - 0.46, position + 0.46], color=style.INK, linewidth=1.4)
        if not math.isnan(cell["products_seconds"]):
            place = (1000 * cell["products_seconds"], position + 0.4)
            look = {"color": style.INK, "markerfacecolor": "white", "markeredgewidth": 0.6}
            axes.plot(*place, marker="^", markersize=3.4, **look)
        said = f"{blocks.number(measured)} ms{' »' if end > limit else ''}"
        place = {"xytext": (3, 0), "textcoords": "offset points", "va": "center", "annotation_clip": False}
        axes.annotate(said, (min(end, limit), position), fontsize=6.2, **place)
    below_zero = min(0.0, *(start for _, _, spans, _ in bars for start, _ in spans.values()))
    axes.set_xlim(1.02 * below_zero, 1.01 * limit)
    _name_bars(axes, [(name, bool(cell["oversubscribed"])) for name, cell, *_ in bars])


def _name_bars(axes: Axes, bars: Sequence[tuple[str, bool]]) -> None:
    """The axes of bars, each of which has a name and may be crowded."""
    axes.set_ylim(len(bars) - 0.5, -0.5)
    shown = [(style.shortened(name), is_crowded) for name, is_crowded in bars]
    names = [style.literal(f"{name}\N{DAGGER}" if is_crowded else name) for name, is_crowded in shown]
    axes.set_yticks(range(len(bars)), names, fontsize=6.5)
    for label, (_, is_crowded) in zip(axes.get_yticklabels(), bars, strict=True):
        label.set_color(style.FAINT if is_crowded else style.INK)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.axvline(0, color=style.FAINT, linewidth=0.6)
    axes.grid(axis="x")
    axes.set_axisbelow(True)


def _draw_bar(axes: Axes, position: int, spans: Mapping[str, tuple[float, float]], alpha: float) -> None:
    for part, (start, end) in spans.items():
        if end - start < style.LEAST_MILLISECONDS:
            continue
        color, hatch = style.PARTS[part]
        edge = {"edgecolor": style.INK, "linewidth": 0.3, "hatch": hatch}
        axes.barh(position, end - start, left=start, height=0.7, color=color, alpha=alpha, **edge)


def _part_handle(part: str) -> Patch:
    color, hatch = style.PARTS[part]
    return Patch(facecolor=color, edgecolor=style.INK, linewidth=0.3, hatch=hatch, label=part)
