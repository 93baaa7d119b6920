"""The figure of values over x: panels that share their axes, a line for each series, and what values are held to."""

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from reports import blocks
from reports.blocks import DAGGER
from reports.charts import layout, style, svg

_LEFT, _LETTER, _LOWEST, _HIGHEST = 14.0, 1.33, 18.0, 50.0
"""Millimetres: left of the panels, of a letter of a title, and of a panel from bottom to top."""

_WIDE = 1.2
"""How many times as wide as high a panel is made where the height of the figure is given."""

_UNDER, _LEGEND = 4.0, 10.0
"""Millimetres below a panel, and of the legend of a figure whose height is given."""

_MARK = ["measure", "panel", "series", "x", "value", "tip", "oversubscribed"]


@dataclass(frozen=True, kw_only=True)
class Line:
    """A reference line, such as an ideal, a base alone, a bound or a fit; or the course of one launch."""

    measure: str
    panel: str = ""
    x: Sequence[float]
    values: Sequence[float]
    """NaN breaks the line."""
    color: str = style.INK
    dashes: str | tuple = layout.DOTS
    width: float = 0.9  # Points.
    marker: str = ""
    label: str = ""
    """Its name in the legend, where equal ones stand once; empty: it isn't there."""
    key: str = ""
    """What picks it out; empty: nothing does."""
    tips: Sequence[Mapping[str, object]] = ()
    """One of the whole line, or one of each marker."""


@dataclass(frozen=True, kw_only=True)
class Plot:
    """All that stands on a figure of values over x.

    `launches` and `medians` have a row for each mark: its `measure`, `panel`, `series`, `x`, `value` and `tip`, and
    `oversubscribed`. Launches have their `launch`, medians `n` launches and an interval from `low` to `high`, NaN
    without one. Each measure has all panels.
    """

    launches: pd.DataFrame = field(default_factory=partial(pd.DataFrame, columns=_MARK))
    medians: pd.DataFrame = field(default_factory=partial(pd.DataFrame, columns=[*_MARK, "n", "low", "high"]))
    lines: Sequence[Line] = ()
    x_label: str = ""
    ticks: Mapping[float, str] = field(default_factory=dict)
    """What stands at places of x; with them both axes are logarithmic."""
    from_zero: Collection[str] = ()
    """Measures whose axis begins at zero and isn't logarithmic."""
    logarithmic: Collection[str] = ()
    """Measures whose axis is logarithmic without ticks on x."""
    shaded_from: float | None = None
    """The first place of x with more threads than cores; from there on panels are grey."""
    height: float | None = None
    """Millimetres of the whole figure; none: panels are half as high as they are wide."""
    note: str = ""
    """Of what isn't drawn."""
    panels_beside: int = 5
    """At most in a row of the full width."""


def curves(plot: Plot, looks: Mapping[str, style.Style], width: float = style.WIDTH) -> bytes:
    """Draw the panels of each measure as SVG. A panel that is called like a series is that one's alone.

    Every launch is a faint mark. A line joins the medians, hollow with more threads than cores, whose intervals are
    upright lines.
    """
    launches, note = layout.thinned(plot.launches, ["measure", "panel", "series", "x"], "series and place", "value")
    plot = dataclasses.replace(plot, launches=launches)
    measures, names = (
        [*dict.fromkeys([*plot.medians[column], *(getattr(line, column) for line in plot.lines)])]
        for column in ("measure", "panel")
    )
    rows = math.ceil(len(names) / _panels_beside(plot, len(names) * len(measures), width))
    columns = math.ceil(len(names) / rows)
    pitch = (width - _LEFT) / columns
    longest = int(pitch / _LETTER)
    titles = [[blocks.shortened(line, longest) for line in style.wrapped(name, longest).split("\n")] for name in names]
    above, foot = 3 + 2.9 * max(map(len, titles)), 6 if plot.x_label else 0
    height = float(np.clip(0.5 * pitch, _LOWEST, _HIGHEST))
    if plot.height:
        height = max(_LOWEST, (plot.height - _LEGEND - foot) / (rows * len(measures)) - above - _UNDER)
    with matplotlib.rc_context(style.SETTINGS):
        figure, panels = layout.panels(
            rows * columns * len(measures),
            [height] * (rows * len(measures)),
            left=_LEFT,
            between=2,
            above=above,
            under=_UNDER,
            foot=foot,
            handles=_legend(plot, {} if {*names} <= looks.keys() else looks),
            note=plot.note or note,
            width=width,
        )
        medians, launches = (dict([*marks.groupby(["measure", "panel"])]) for marks in (plot.medians, plot.launches))
        limits = {measure: _limits(plot, measure) for measure in measures}
        for place, axes in enumerate(panels):
            # The measures of a row of panels stand below one another.
            line, column = divmod(place, columns)
            row, of_measure = divmod(line, len(measures))
            index, measure = row * columns + column, measures[of_measure]
            if index >= len(names):
                axes.remove()
                continue
            first = panels[of_measure * columns]
            if not plot.ticks and axes is not first:
                axes.sharex(first)
                axes.sharey(first)
            name = names[index]
            title = axes.set_title("\n".join(titles[index]) if of_measure == 0 else "", fontsize=6.5, pad=3)
            if name in looks:
                title.set_color(looks[name].color)
                svg.button(title, name)
            _draw_lines(axes, [line for line in plot.lines if (line.measure, line.panel) == (measure, name)])
            own = [marks.get((measure, name), plot.launches.iloc[:0]) for marks in (medians, launches)]
            _draw_all_series(axes, name, *own, looks)
            _scale(axes, plot, measure, limits[measure])
            svg.panel(axes, f"{name}: {measure}" if name else measure)
            is_lowest = of_measure + 1 == len(measures) and index + columns >= len(names)
            axes.tick_params(labelsize=6.2, labelleft=column == 0, labelbottom=is_lowest)
            axes.set_xlabel(plot.x_label if is_lowest else "", fontsize=6.5)
            axes.set_ylabel(measure if column == 0 else "", fontsize=6.5)
        return svg.svg(figure)


def _panels_beside(plot: Plot, count: int, width: float) -> int:
    """How many of `count` panels stand in a row: where the height is given, they are a little wider than high."""
    most = max(1, int(plot.panels_beside * width / style.WIDTH))
    if not plot.height:
        return most
    area = plot.height * (width - _LEFT) / count
    return min(most, max(1, round((width - _LEFT) / math.sqrt(_WIDE * area))))


def _draw_all_series(
    axes: Axes, name: str, medians: pd.DataFrame, launches: pd.DataFrame, looks: Mapping[str, style.Style]
) -> None:
    """Draw every series of the panel called `name`, each a little aside, so that none hides another."""
    for series, group in medians.groupby("series", sort=False):
        aside = 1.0 if series == name else 2 ** looks[series].shift
        _draw_series(axes, str(series), group, launches[launches["series"] == series], looks[series], aside)


def _draw_lines(axes: Axes, lines: Sequence[Line]) -> None:
    for line in lines:
        [drawn] = axes.plot(line.x, line.values, marker=line.marker, color=line.color, linestyle=line.dashes)
        # What is dashed would be lost below another line, and a course below a level.
        zorder = 1.5 if line.dashes == "-" and not line.marker else 2.5
        drawn.set(linewidth=line.width, markersize=1.6, markeredgewidth=0, zorder=zorder)
        if line.key:
            svg.mark(drawn, [line.key], *line.tips)


def _scale(axes: Axes, plot: Plot, measure: str, limits: tuple[float, float]) -> None:
    """Set both axes of a panel, and have worlds with more threads than cores stand on grey."""
    if measure in plot.from_zero:
        axes.set_ylim(0, limits[1])
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: layout.short(value)))
    elif plot.ticks or measure in plot.logarithmic:
        axes.set_yscale("log")
        axes.set_ylim(*limits)
        layout.plain_log_axis(axes)
    if plot.ticks:
        layout.measured_places(axes, plot.ticks)
        if plot.shaded_from is not None:
            axes.axvspan(plot.shaded_from / math.sqrt(2), axes.get_xlim()[1], color=style.GROUND, zorder=0)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _draw_series(
    axes: Axes, key: str, medians: pd.DataFrame, launches: pd.DataFrame, look: style.Style, aside: float
) -> None:
    """Draw the launches of a series, the line of its medians and their intervals; the key picks all of it out."""
    medians = medians.sort_values("x")
    [points] = axes.plot(aside * launches["x"], launches["value"], "o", color=look.color)
    points.set(markersize=2.2, alpha=0.3, markeredgewidth=0)
    svg.mark(points, [key], *launches["tip"])
    certain = medians.dropna(subset=["low"])
    if len(certain):
        intervals = axes.vlines(aside * certain["x"], certain["low"], certain["high"], color=look.color, linewidth=2.2)
        intervals.set_alpha(0.5)
        svg.mark(intervals, [key], *certain["tip"])
    [line] = axes.plot(aside * medians["x"], medians["value"], color=look.color, linestyle=look.line, zorder=2)
    svg.mark(line, [key])
    for is_hollow, group in medians.groupby("oversubscribed"):
        [marks] = axes.plot(aside * group["x"], group["value"], look.marker, color=look.color, markersize=3.6, zorder=3)
        marks.set(markeredgewidth=0.8, markerfacecolor=style.PAPER if is_hollow else look.color)
        svg.mark(marks, [key], *group["tip"])


def _limits(plot: Plot, measure: str) -> tuple[float, float]:
    """The ends of the logarithmic axis that all panels of a measure share."""
    medians, launches = (marks[marks["measure"] == measure] for marks in (plot.medians, plot.launches))
    values = [medians["value"], medians["low"], medians["high"], launches["value"]]
    drawn = pd.concat([*values, *(pd.Series(line.values) for line in plot.lines if line.measure == measure)])
    return 0.85 * drawn[drawn > 0].min(), 1.2 * drawn.max()


def _legend(plot: Plot, looks: Mapping[str, style.Style]) -> list[layout.Handle]:
    """The series that have looks, the reference lines by their labels, and what marks stand for."""
    handles: list[layout.Handle] = []
    for name, group in plot.medians.groupby("series", sort=False) if looks else ():
        handles.append(layout.line_handle(str(name), looks[str(name)]))
        handles[-1].set_label(style.wrapped(str(name)) + f" {DAGGER}" * bool(group["oversubscribed"].any()))
    for label in dict.fromkeys(line.label for line in plot.lines if line.label):
        first, *others = (line for line in plot.lines if line.label == label)
        color = first.color if {line.color for line in others} <= {first.color} else style.INK
        handle = Line2D([], [], color=color, linestyle=first.dashes, marker=first.marker, label=style.wrapped(label))
        handle.set(linewidth=first.width, markersize=3.4, gid=first.key or None)
        handles.append(handle)
    measured = plot.medians[plot.medians["n"] > 0]
    return handles + layout.mark_handles(measured["low"].notna().any(), bool(plot.medians["oversubscribed"].any()))
