"""The figures of an experiment in one world: a value over what is varied, or over the course of each launch."""

import math
from collections.abc import Mapping

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.lines import Line2D

from common.observations import answers
from common.observations.display import Display, Measure, x_in_words
from common.observations.numbers import number
from common.statistics.fit import Fit
from reports.blocks import DAGGER
from reports.charts import layout, style, svg

_HEIGHT = 80.0  # Millimetres.
_MOST_TICKS = 14
_DOTS = (0, (1, 1.4))
_UNITS = ((2**30, " Gi"), (2**20, " Mi"), (2**10, " Ki"))


def curves(
    display: Display, observed: pd.DataFrame, fits: Mapping[str, Fit], looks: Mapping[str, style.Style]
) -> bytes:
    """What contenders are compared by over x as SVG, both logarithmic: a line for each series.

    `observed` are its rows of one subject in one world, with x above zero; `fits` are by series. Every launch is a
    faint mark, a line joins the medians, whose intervals are upright lines; fitted pieces are thin and dotted.
    """
    medians, factor = answers.medians(observed), display.compared.factor
    with matplotlib.rc_context(style.SETTINGS):
        figure, [axes] = layout.panels(1, [_HEIGHT], left=13, between=0, handles=_legend(medians, fits, looks))
        for name, own in medians.groupby("series", sort=False):
            launches = observed[observed["series"] == name]
            # A little aside, so that no series hides another.
            points = [
                _point(display, row, launches[launches["x"] == row["x"]]["value"], 2 ** looks[str(name)].shift)
                for row in own.sort_values("x").to_dict("records")
            ]
            layout.draw_points(axes, str(name), points, looks[str(name)])
        for name, each in fits.items():
            for piece in each.pieces:
                places = np.geomspace(piece.from_bytes, piece.to_bytes, 60)
                values = [factor * piece.seconds(size) for size in places]
                [line] = axes.plot(places, values, color=looks[name].color, linewidth=0.7, linestyle=_DOTS, zorder=2.5)
                svg.mark(line, [name])
        axes.set(yscale="log", title=display.compared.label)
        layout.plain_log_axis(axes)
        svg.panel(axes, display.compared.label)
        sizes = sorted(medians["x"].unique())
        # Of many some are named.
        every = math.ceil(len(sizes) / _MOST_TICKS)
        words = {size: "" if place % every else in_words(display, size) for place, size in enumerate(sizes)}
        layout.measured_places(axes, words, display.x)
        return svg.svg(figure)


def courses(measure: Measure, observed: pd.DataFrame, looks: Mapping[str, style.Style]) -> bytes:
    """The rows of a measure over x as SVG, neither logarithmic: a line for each launch, which looks as its series."""
    handles = [layout.line_handle(name, looks[name]) for name in observed["series"].unique()]
    with matplotlib.rc_context(style.SETTINGS):
        figure, [axes] = layout.panels(1, [_HEIGHT], left=13, between=0, handles=handles)
        for (series, launch), own in observed.sort_values("x").groupby(["series", "launch"], sort=False):
            look = looks[series]
            [line] = axes.plot(own["x"], measure.factor * own["value"], look.marker, color=look.color)
            line.set(linestyle=look.line, linewidth=0.8, markersize=1.6, markeredgewidth=0)
            svg.mark(line, [series], {"launch": launch})
        axes.set(title=measure.label, xlabel=measure.over)
        svg.panel(axes, measure.label)
        return svg.svg(figure)


def in_words(display: Display, x: float) -> str:
    """An x as it stands at a tick: bytes in units of 1024 where it's a whole number of them."""
    if display.x_is_bytes:
        for unit, name in _UNITS:
            if x % unit == 0:
                return f"{x / unit:.0f}{name}"
    return x_in_words(x)


def _point(display: Display, row: Mapping[str, object], launches: pd.Series, aside: float) -> layout.Point:
    values, label, n = display.compared.factor * launches, display.compared.label, row["n"]
    median, low, high = (display.compared.factor * row[name] for name in ("median", "low", "high"))
    about = {
        display.contender: f"{row['series']}{DAGGER * row['oversubscribed']}",
        display.x: in_words(display, row["x"]),
    }
    interval = "none: too few launches" if math.isnan(low) else f"{number(low)} to {number(high)}"
    return layout.Point(
        place=row["x"] * aside,
        launches=values.tolist(),
        median=median,
        interval=None if math.isnan(low) else (low, high),
        oversubscribed=row["oversubscribed"],
        tip=about | {label: number(median), "95 % interval": interval, "launches (n)": n},
        tips_of_launches=[about | {f"a launch, {label}": number(value)} for value in values],
    )


def _legend(medians: pd.DataFrame, fits: Mapping[str, Fit], looks: Mapping[str, style.Style]) -> list[layout.Handle]:
    handles: list[layout.Handle] = []
    for name, own in medians.groupby("series", sort=False):
        handles.append(layout.line_handle(str(name), looks[str(name)]))
        handles[-1].set_label(style.wrapped(str(name)) + f" {DAGGER}" * bool(own["oversubscribed"].any()))
    if fits:
        label = "alpha + size / beta, fitted"
        handles.append(Line2D([], [], color=style.INK, linewidth=0.7, linestyle=_DOTS, label=label))
    measured = medians[medians["n"] > 0]
    return handles + layout.mark_handles(measured["low"].notna().any(), bool(medians["oversubscribed"].any()))
