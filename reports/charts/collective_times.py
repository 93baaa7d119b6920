"""The figure of one collective in one world: time over size, and below it how far the fitted lines are off."""

import math
from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from common.records.collective_rows import CaseFit, Row
from reports.charts import speed, style
from reports.charts.style import Style

_TIMES_HEIGHT, _RESIDUALS_HEIGHT, _GAP = 88.0, 24.0, 3.0  # Millimetres.
_MOST_TICKS = 14
_DOTS = (0, (1, 1.4))
_LEAST_PERCENT = 1.0  # Residuals below it are drawn as small as they are.
_UNITS = ((2**30, " Gi"), (2**20, " Mi"), (2**10, " Ki"))


def times(rows: Sequence[Row], fits: Sequence[CaseFit], looks: Mapping[str, Style]) -> bytes:
    """Microseconds of a collective over its size in bytes as SVG, both logarithmic: a line for each library.

    `rows` are those of one collective in one world, of sizes above zero, `fits` those of the same cases, `looks` are by
    the libraries' names. Every launch is a faint mark, a line joins the medians, whose intervals are upright lines; the
    fitted pieces are thin and dotted. The panel below, which is there where anything was fitted, has their residuals,
    (fitted - measured) / measured in percent.
    """
    handles = _legend(rows, fits, looks)
    below = style.legend_height(handles)
    residuals = _GAP + _RESIDUALS_HEIGHT if fits else 0.0
    height = 5 + _TIMES_HEIGHT + residuals + 10 + below
    with matplotlib.rc_context(style.SETTINGS):
        figure = Figure(figsize=(style.WIDTH, height * style.MILLIMETRE))
        upper = figure.add_axes((0.075, (10 + below + residuals) / height, 0.915, _TIMES_HEIGHT / height))
        for library, own in _by_library(rows).items():
            _draw(upper, own, looks[library])
        _draw_pieces(upper, fits, looks)
        upper.set_yscale("log")
        upper.set_title("microseconds from the last rank's arrival to the last result")
        speed.plain_log_axis(upper)
        panels = [upper]
        if fits:
            lower = figure.add_axes((0.075, (10 + below) / height, 0.915, _RESIDUALS_HEIGHT / height))
            _draw_residuals(lower, fits, looks)
            upper.tick_params(labelbottom=False)
            panels.append(lower)
        for axes in panels:
            _size_axis(axes, sorted({row.size_bytes for row in rows}))
        panels[-1].set_xlabel("size in bytes, as nccl-tests counts it")
        style.draw_legend(figure, handles)
        return style.svg(figure)


def in_words(size_bytes: int) -> str:
    """A size as it stands at a tick: in units of 1024 where it's a whole number of them."""
    for unit, name in _UNITS:
        if size_bytes % unit == 0:
            return f"{size_bytes // unit}{name}"
    return f"{size_bytes:,}"


def _by_library(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in sorted(rows, key=lambda row: (row.case.library, row.size_bytes)):
        found.setdefault(row.case.library, []).append(row)
    return found


def _draw(axes: Axes, own: Sequence[Row], look: Style) -> None:
    """One library: its launches, its medians and their intervals, a little aside so that no library hides another."""
    aside = 2**look.shift
    for row in own:
        seconds = [1e6 * each for each in row.launch_seconds]
        axes.plot(
            *([row.size_bytes * aside] * len(seconds), seconds),
            **{"linestyle": "none", "marker": "o", "markersize": 2.2, "alpha": 0.3, "markeredgewidth": 0},
            **{"color": look.color},
        )
        if row.seconds.low is not None:
            ends = (1e6 * row.seconds.low, 1e6 * row.seconds.high)
            axes.vlines(row.size_bytes * aside, *ends, color=look.color, linewidth=2.2, alpha=0.5)
    medians = [(row.size_bytes * aside, 1e6 * row.seconds.median) for row in own]
    axes.plot(*zip(*medians, strict=True), color=look.color, linestyle=look.line, zorder=2)
    for row, place in zip(own, medians, strict=True):
        fill = "white" if row.oversubscribed else look.color
        mark = {"marker": look.marker, "markersize": 3.4, "markeredgewidth": 0.8, "markerfacecolor": fill}
        axes.plot(*place, color=look.color, linestyle="none", zorder=3, **mark)


def _draw_pieces(axes: Axes, fits: Sequence[CaseFit], looks: Mapping[str, Style]) -> None:
    for each in fits:
        for piece in each.fit.pieces:
            sizes = np.geomspace(piece.from_bytes, piece.to_bytes, 60)
            seconds = [1e6 * piece.seconds(size) for size in sizes]
            axes.plot(sizes, seconds, color=looks[each.case.library].color, linewidth=0.7, linestyle=_DOTS, zorder=2.5)


def _draw_residuals(axes: Axes, fits: Sequence[CaseFit], looks: Mapping[str, Style]) -> None:
    """Of each library how far the lines are off at each size, in percent of what was measured."""
    largest = _LEAST_PERCENT
    for each in fits:
        look = looks[each.case.library]
        percents = [100 * residual for residual in each.fit.residuals]
        largest = max(largest, *map(abs, percents))
        sizes = [size * 2**look.shift for size in each.fit.size_bytes]
        axes.plot(sizes, percents, color=look.color, marker=look.marker, markersize=2.6, linewidth=0.5)
    axes.axhline(0, color=style.FAINT, linewidth=0.6, zorder=1)
    axes.set_ylim(-1.12 * largest, 1.12 * largest)
    axes.set_ylabel("residual, %")


def _size_axis(axes: Axes, sizes: Sequence[int]) -> None:
    """The sizes that were measured, each at its place on a logarithmic axis; of many not each is named."""
    shown = sizes[:: math.ceil(len(sizes) / _MOST_TICKS)]
    axes.set_xscale("log")
    axes.set_xticks(shown, [in_words(size) for size in shown], fontsize=6.2)
    axes.xaxis.set_minor_locator(NullLocator())
    margin = max((sizes[-1] / sizes[0]) ** 0.03, 1.2)
    axes.set_xlim(sizes[0] / margin, sizes[-1] * margin)
    axes.grid(axis="y")
    axes.set_axisbelow(True)


def _legend(rows: Sequence[Row], fits: Sequence[CaseFit], looks: Mapping[str, Style]) -> list[Line2D]:
    handles = []
    for library, own in _by_library(rows).items():
        crowded = " \N{DAGGER}" if any(row.oversubscribed for row in own) else ""
        handles.append(style.line_handle(style.wrapped(library) + crowded, looks[library]))
    if fits:
        label = "alpha + size / beta, fitted"
        handles.append(Line2D([], [], color=style.INK, linewidth=0.7, linestyle=_DOTS, label=label))
    if any(row.seconds.low is not None for row in rows):
        handles.append(style.mark_handle("|", 7, 1.8, "95 % interval of the median"))
    if any(row.oversubscribed for row in rows):
        handles.append(style.mark_handle("o", 3.4, 0.8, "\N{DAGGER} more threads than cores"))
    return handles
