"""Where the panels and the legend of a figure stand, how its axes are written, and what of many launches it draws."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from reports.blocks import DAGGER
from reports.charts import style, svg
from reports.charts.style import MILLIMETRE, Style

MOST_POINTS = 2_000
"""Launches that a figure draws; of more it draws some, and says which."""

DOTS = (0, (1, 2))
"""The line of an ideal."""

_NOTE_LINE, _NOTE_LETTER = 2.9, 1.12  # Millimetres.

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
    note: str = "",
    width: float = style.WIDTH,
) -> tuple[Figure, list[Axes]]:
    """A figure with its panels row by row, and the legend of `handles` and a note below them.

    Lengths are millimetres: the figure's width, the heights of each row's plots, and what is left free around a plot.
    `left` is that of the first in a row, `between` that of the others; `foot` is left free below the last row. The
    `grid` has the lines of one axis.
    """
    columns = math.ceil(count / len(heights))
    notes = textwrap.wrap(note, int(width / _NOTE_LETTER))
    below = foot + _legend_height(handles, width) + _NOTE_LINE * len(notes)
    total = sum(heights) + len(heights) * (above + under) + below
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
        _draw_legend(figure, handles, _legend_columns(handles, width), bottom=_NOTE_LINE * len(notes) / total)
    for place, line in enumerate(notes):
        y = (_NOTE_LINE * (len(notes) - place) - 2) / total
        figure.text(1.5 / width, y, line, fontsize=6.2, color=style.FAINT)
    return figure, placed


def mark_handle(marker: str, size: float, edge: float, label: str) -> Line2D:
    """A marker of this size and width of edge, in points, hollow, with what it stands for, for a legend."""
    look = {"linestyle": "none", "color": style.INK, "markerfacecolor": "none"}
    return Line2D([], [], marker=marker, markersize=size, markeredgewidth=edge, label=label, **look)


def line_handle(name: str, look: Style) -> Line2D:
    """The line of a strategy with its name, which picks it out, for a legend."""
    line = Line2D([], [], color=look.color, linestyle=look.line, marker=look.marker)
    line.set(markersize=3.4, label=style.wrapped(name), gid=name)
    return line


def mark_handles(intervals: bool, oversubscribed: bool) -> list[Handle]:
    """What intervals and hollow marks stand for, where there are any, for a legend."""
    handles: list[Handle] = []
    if oversubscribed:
        handles.append(mark_handle("o", 3.4, 0.8, f"{DAGGER} more threads than cores"))
    if intervals:
        handles.append(mark_handle("|", 7, 1.8, "95 % interval of the median"))
    return handles


def _legend_columns(handles: Sequence[Handle], width: float) -> int:
    longest = max(len(line) for handle in handles for line in handle.get_label().split("\n"))
    return max(1, int((3 if longest > 25 else 4) * width / style.WIDTH))


def _legend_height(handles: Sequence[Handle], width: float) -> float:
    """Millimetres that a legend takes: its columns are filled one after another, with as many handles in each."""
    if not handles:
        return 0.0
    columns = np.array_split(np.array([handle.get_label() for handle in handles]), _legend_columns(handles, width))
    return 2 + max(sum(1.2 + 2.75 * (1 + label.count("\n")) for label in column) for column in columns)


def _draw_legend(figure: Figure, handles: Sequence[Handle], columns: int, bottom: float) -> None:
    """All handles in columns over the whole width, at the bottom of the figure; one with a key picks that out."""
    legend = figure.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0.03, bottom, 0.96, 0.0),
        mode="expand",
        ncols=columns,
        frameon=False,
        fontsize=6.5,
        handlelength=2.8,
    )
    for handle, text in zip(handles, legend.get_texts(), strict=True):
        if handle.get_gid():
            svg.button(text, handle.get_gid())


def plain_log_axis(axes: Axes) -> None:
    """Ticks at powers of ten, and at 2 and 5 times them where there are but a few, written out."""
    low, high = axes.get_ylim()
    subs = (1.0, 2.0, 5.0) if high / low < 1e3 else (1.0,)
    axes.yaxis.set_major_locator(LogLocator(subs=subs, numticks=30))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    # At least a factor of four, so that two ticks always show and noise doesn't fill the panel.
    if high / low < 4:
        middle = math.sqrt(low * high)
        axes.set_ylim(middle / 2, middle * 2)


def measured_places(axes: Axes, words: Mapping[float, str]) -> None:
    """A logarithmic axis from left to right, with ticks at the places that were measured and what is said there."""
    places = sorted(words)
    margin = max((places[-1] / places[0]) ** 0.05, 1.2)
    axes.set_xscale("log")
    axes.set_xticks(places, [words[place] for place in places], fontsize=6.2)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(places[0] / margin, places[-1] * margin)


def short(value: float) -> str:
    """A number as it stands at a tick: thousands as `1 k`."""
    if value >= 1e6:
        return f"{value / 1e6:g} M"
    return f"{value / 1e3:g} k" if value >= 1000 else f"{value:g}"


def thinned(launches: pd.DataFrame, keys: Sequence[str], what: str, value: str) -> tuple[pd.DataFrame, str]:
    """As many launches as a figure draws, of each group by these keys, which are `what`, and a note on that.

    They are those with the smallest and the largest `value` and some between.
    """
    if len(launches) <= MOST_POINTS:
        return launches, ""
    groups = launches.sort_values([value, "launch"]).groupby([*keys])
    most = max(2, MOST_POINTS // groups.ngroups)
    # The first, the last, and some between.
    places = [np.linspace(0, len(group) - 1, min(len(group), most)).round().astype(int) for _, group in groups]
    drawn = pd.concat([group.iloc[own] for own, (_, group) in zip(places, groups, strict=True)])
    return drawn, f"Drawn are {most} launches of each {what}, from the slowest to the fastest."
