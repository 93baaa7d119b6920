"""Where the panels and the legend of a figure stand, and how its axes are written."""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from reports.charts import style, svg
from reports.charts.style import MILLIMETRE

DOTS = (0, (1, 2))  # The line of an ideal.

Handle = Line2D | Patch


def panels(
    count: int,
    heights: Sequence[float],
    *,
    left: float,
    between: float,
    right: float = 2.0,
    above: float = 6.0,
    under: float = 9.0,
    foot: float = 0.0,
    grid: Literal["x", "y", ""] = "y",
    handles: Sequence[Handle] = (),
    one_line: bool = False,
    width: float = style.WIDTH,
) -> tuple[Figure, list[Axes]]:
    """A figure with its panels row by row, and the legend of `handles` below them.

    Lengths are millimetres: the figure's width, the heights of each row's plots, and what is left free around a plot.
    `left` is that of the first in a row, `between` that of the others; `foot` is left free below the last row. The
    `grid` has the lines of one axis. With `one_line` the legend is one line.
    """
    columns = math.ceil(count / len(heights))
    longest = max((len(line) for handle in handles for line in handle.get_label().split("\n")), default=0)
    beside = len(handles) if one_line else max(1, int((3 if longest > 25 else 4) * width / style.WIDTH))
    total = sum(heights) + len(heights) * (above + under) + foot + _legend_height(handles, beside)
    figure = Figure(figsize=(width * MILLIMETRE, total * MILLIMETRE))
    plot = (width - left - (columns - 1) * between - columns * right) / columns
    placed = []
    for place in range(count):
        row, column = divmod(place, columns)
        start = left + column * (plot + right + between)
        bottom = total - sum(heights[: row + 1]) - row * (above + under) - above
        placed.append(figure.add_axes((start / width, bottom / total, plot / width, heights[row] / total)))
        if grid:
            placed[-1].grid(axis=grid)
    if handles:
        where = {"loc": "lower left", "bbox_to_anchor": (0.03, 0.0, 0.96, 0.0), "mode": "expand", "ncols": beside}
        legend = figure.legend(handles=handles, **where, frameon=False, fontsize=6.5, handlelength=2.8)
        for handle, text in zip(handles, legend.get_texts(), strict=True):
            if handle.get_gid():
                svg.button(text, handle.get_gid())
    return figure, placed


def mark_handle(marker: str, size: float, edge: float, label: str) -> Line2D:
    """A marker of this size and width of edge, in points, hollow, with what it stands for, for a legend."""
    look = {"linestyle": "none", "color": style.INK, "markerfacecolor": "none"}
    return Line2D([], [], marker=marker, markersize=size, markeredgewidth=edge, label=label, **look)


def interval_handles(lows: pd.Series) -> list[Handle]:
    """What intervals stand for, where any of these lower ends is one, for a legend."""
    return [mark_handle("|", 7, 1.8, "95 % interval of the median")] if lows.notna().any() else []


def _legend_height(handles: Sequence[Handle], beside: int) -> float:
    """Millimetres that a legend takes: its columns are filled one after another, with as many handles in each."""
    if not handles:
        return 0.0
    columns = np.array_split(np.array([handle.get_label() for handle in handles]), beside)
    return 2 + max(sum(1.2 + 2.75 * (1 + label.count("\n")) for label in column) for column in columns)
