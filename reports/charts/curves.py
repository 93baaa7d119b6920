"""The figure of values over x: panels that share their axes, a line for each series, and what values are held to."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from common.observations.display import x_in_words
from common.observations.numbers import interval, number, short
from reports import blocks
from reports.blocks import DAGGER
from reports.charts import layout, style, svg

_LEFT, _LETTER, _LOWEST, _HIGHEST = 14.0, 1.33, 18.0, 50.0
"""Millimetres: left of the panels, of a letter of a title, and of a panel from bottom to top."""
_UNDER, _LEGEND = 4.0, 10.0  # Millimetres below a panel, and of the legend of a figure whose height is given.

_MARK = ["measure", "panel", "series", "x", "value", "oversubscribed"]


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

    `launches` and `medians` have a row for each mark: its `measure`, `panel`, `series`, `x` and `value`, and
    `oversubscribed`. Launches have their `launch`, medians `n` launches and an interval from `low` to `high`, NaN
    without one. Each measure has all panels.
    """

    launches: pd.DataFrame = field(default_factory=partial(pd.DataFrame, columns=[*_MARK, "launch"]))
    medians: pd.DataFrame = field(default_factory=partial(pd.DataFrame, columns=[*_MARK, "n", "low", "high"]))
    lines: Sequence[Line] = ()
    contender: str = "strategy"
    """What a series is, in a word."""
    x_label: str = ""
    ticks: Mapping[float, str] = field(default_factory=dict)
    """What stands at places of x; with them both axes are logarithmic."""
    from_zero: str = ""
    """The measure whose axis begins at zero and isn't logarithmic."""
    is_logarithmic: bool = False
    """Whether the axes of values are so without ticks on x."""
    shaded_from: float | None = None
    """The first place of x with more threads than cores; from there on panels are grey."""
    height: float | None = None
    """Millimetres of the whole figure; none: panels are half as high as they are wide."""
    panels_beside: int = 5
    """At most in a row of the full width."""


def curves(plot: Plot, looks: Mapping[str, style.Style], width: float = style.WIDTH) -> bytes:
    """Draw the panels of each measure as SVG. A panel that is called like a series is that one's alone.

    Every launch is a faint mark. A line joins the medians, hollow with more threads than cores, whose intervals are
    upright lines.
    """
    measures, names = (
        [*dict.fromkeys([*plot.medians[column], *(getattr(line, column) for line in plot.lines)])]
        for column in ("measure", "panel")
    )
    beside = max(1, int(plot.panels_beside * width / style.WIDTH))
    if plot.height:
        # A little wider than high.
        area = plot.height * (width - _LEFT) / (len(names) * len(measures))
        beside = min(beside, max(1, round((width - _LEFT) / math.sqrt(1.2 * area))))
    rows = math.ceil(len(names) / beside)
    columns = math.ceil(len(names) / rows)
    pitch = (width - _LEFT) / columns
    longest = int(pitch / _LETTER)
    titles = [[blocks.shortened(line, longest) for line in style.wrapped(name, longest).split("\n")] for name in names]
    above, foot = 3 + 2.9 * max(map(len, titles)), 6 if plot.x_label else 0
    height = float(np.clip(0.5 * pitch, _LOWEST, _HIGHEST))
    if plot.height:
        height = max(_LOWEST, (plot.height - _LEGEND - foot) / (rows * len(measures)) - above - _UNDER)
    drawn = {measure: _values(plot, measure) for measure in measures}
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
            width=width,
        )
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
            title = axes.set_title("\n".join(titles[index]) if of_measure == 0 else "", fontsize=6.5, pad=3)
            if names[index] in looks:
                title.set_color(looks[names[index]].color)
                svg.button(title, names[index])
            _draw_panel(axes, plot, measure, names[index], looks)
            _scale(axes, plot, drawn[measure], measure == plot.from_zero)
            is_lowest = of_measure + 1 == len(measures) and index + columns >= len(names)
            axes.tick_params(labelsize=6.2, labelleft=column == 0, labelbottom=is_lowest)
            axes.set_xlabel(plot.x_label if is_lowest else "", fontsize=6.5)
            axes.set_ylabel(measure if column == 0 else "", fontsize=6.5)
        return svg.svg(figure)


def _draw_panel(axes: Axes, plot: Plot, measure: str, name: str, looks: Mapping[str, style.Style]) -> None:
    """Draw the lines and the series of the panel called `name`."""
    svg.panel(axes, f"{name}: {measure}" if name else measure)
    for line in plot.lines:
        if (line.measure, line.panel) == (measure, name):
            [drawn] = axes.plot(line.x, line.values, marker=line.marker, color=line.color, linestyle=line.dashes)
            # What is dashed would be lost below another line, and a course below a level.
            zorder = 1.5 if line.dashes == "-" and not line.marker else 2.5
            drawn.set(linewidth=line.width, markersize=1.6, markeredgewidth=0, zorder=zorder)
            if line.key:
                svg.mark(drawn, [line.key], *line.tips)
    medians, launches = (
        marks[(marks["measure"] == measure) & (marks["panel"] == name)] for marks in (plot.medians, plot.launches)
    )
    for series, group in medians.groupby("series", sort=False):
        own = launches[launches["series"] == series]
        # A little aside, so that none hides another.
        aside = 1.0 if series == name else 2 ** looks[series].shift
        _draw_series(axes, plot, group.assign(at=aside * group["x"]), own.assign(at=aside * own["x"]), looks[series])


def _draw_series(axes: Axes, plot: Plot, medians: pd.DataFrame, launches: pd.DataFrame, look: style.Style) -> None:
    """Draw the launches of a series, the line of its medians and their intervals; its name picks all of it out."""
    medians, key = medians.sort_values("x"), [medians["series"].iloc[0]]
    [points] = axes.plot(launches["at"], launches["value"], "o", color=look.color)
    points.set(markersize=2.2, alpha=0.3, markeredgewidth=0)
    svg.mark(points, key, *_tips(plot, launches))
    certain = medians.dropna(subset=["low"])
    if len(certain):
        intervals = axes.vlines(certain["at"], certain["low"], certain["high"], color=look.color, linewidth=2.2)
        intervals.set_alpha(0.5)
        svg.mark(intervals, key, *_tips(plot, certain))
    [line] = axes.plot(medians["at"], medians["value"], color=look.color, linestyle=look.line, zorder=2)
    svg.mark(line, key)
    for is_hollow, group in medians.groupby("oversubscribed"):
        [marks] = axes.plot(group["at"], group["value"], look.marker, color=look.color, markersize=3.6, zorder=3)
        marks.set(markeredgewidth=0.8, markerfacecolor=style.PAPER if is_hollow else look.color)
        svg.mark(marks, key, *_tips(plot, group))


def _tips(plot: Plot, marks: pd.DataFrame) -> list[dict[str, object]]:
    """What each launch, or each median, says under the mouse."""
    tips = []
    for row in marks.filter([*_MARK, "low", "high", "n", "launch"]).to_dict("records"):
        tip = {plot.contender: row["series"] + DAGGER * row["oversubscribed"], plot.x_label: x_in_words(row["x"])}
        tip[row["measure"]] = number(row["value"])
        if "launch" in row:
            tip["launch (n = 1)"] = row["launch"]
        else:
            tip |= {"95 % interval": interval(row["low"], row["high"], number), "launches (n)": row["n"]}
        tips.append(tip)
    return tips


def _values(plot: Plot, measure: str) -> pd.Series:
    """Every value of a measure that a panel draws, and the ends of its intervals."""
    medians, launches = (marks[marks["measure"] == measure] for marks in (plot.medians, plot.launches))
    values = [medians["value"], medians["low"], medians["high"], launches["value"]]
    return pd.concat([*values, *(pd.Series(line.values) for line in plot.lines if line.measure == measure)])


def _scale(axes: Axes, plot: Plot, drawn: pd.Series, is_from_zero: bool) -> None:
    """Set both axes of a panel. `drawn` are the values of all panels of its measure."""
    if is_from_zero:
        axes.set_ylim(0, 1.2 * drawn.max())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    elif plot.ticks or plot.is_logarithmic:
        axes.set_yscale("log")
        low, high = 0.85 * drawn[drawn > 0].min(), 1.2 * drawn.max()
        # Ticks at 1, 2 and 5 times powers of ten, or at these powers alone where there are many, written out.
        subs = (1.0, 2.0, 5.0) if high / low < 100 else (1.0,)
        axes.yaxis.set_major_locator(LogLocator(subs=subs, numticks=30))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
        axes.yaxis.set_minor_formatter(NullFormatter())
        # At least a factor of four, so that two ticks always show and noise doesn't fill the panel.
        middle = math.sqrt(low * high)
        axes.set_ylim(min(low, middle / 2), max(high, middle * 2))
    if plot.ticks:
        places = sorted(plot.ticks)
        margin = max((places[-1] / places[0]) ** 0.05, 1.2)
        axes.set_xscale("log")
        axes.set_xticks(places, [plot.ticks[place] for place in places], fontsize=6.2)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlim(places[0] / margin, places[-1] * margin)
        if plot.shaded_from is not None:
            axes.axvspan(plot.shaded_from / math.sqrt(2), axes.get_xlim()[1], color=style.GROUND, zorder=0)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _legend(plot: Plot, looks: Mapping[str, style.Style]) -> list[layout.Handle]:
    """The series that have looks, the reference lines by their labels, and what marks stand for."""
    handles: list[layout.Handle] = []
    for name, group in plot.medians.groupby("series", sort=False) if looks else ():
        line = Line2D([], [], color=looks[name].color, linestyle=looks[name].line, marker=looks[name].marker, gid=name)
        line.set(markersize=3.4, label=style.wrapped(name) + f" {DAGGER}" * bool(group["oversubscribed"].any()))
        handles.append(line)
    for label in dict.fromkeys(line.label for line in plot.lines if line.label):
        first, *others = (line for line in plot.lines if line.label == label)
        color = first.color if {line.color for line in others} <= {first.color} else style.INK
        handle = Line2D([], [], color=color, linestyle=first.dashes, marker=first.marker, label=style.wrapped(label))
        handle.set(linewidth=first.width, markersize=3.4, gid=first.key or None)
        handles.append(handle)
    measured = plot.medians[plot.medians["n"] > 0]
    if plot.medians["oversubscribed"].any():
        handles.append(layout.mark_handle("o", 3.4, 0.8, f"{DAGGER} more threads than cores"))
    return handles + layout.interval_handles(measured["low"])
