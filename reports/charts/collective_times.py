"""The figure of one collective in one world: time over size, with the fitted lines."""

import math
from collections.abc import Mapping, Sequence

import matplotlib
import numpy as np
from matplotlib.lines import Line2D

from common.records.collective_rows import CaseFit, Row
from reports import blocks
from reports.blocks import DAGGER
from reports.charts import layout, style, svg
from reports.tables.collectives import grouped

_HEIGHT = 80.0  # Millimetres.
_MOST_TICKS = 14
_DOTS = (0, (1, 1.4))
_UNITS = ((2**30, " Gi"), (2**20, " Mi"), (2**10, " Ki"))


def times(rows: Sequence[Row], fits: Sequence[CaseFit], looks: Mapping[str, style.Style]) -> bytes:
    """Microseconds of a collective over its size in bytes as SVG, both logarithmic: a line for each library.

    `rows` are those of one collective in one world, of sizes above zero, `fits` those of the same cases, `looks` are by
    the libraries' names. Every launch is a faint mark, a line joins the medians, whose intervals are upright lines; the
    fitted pieces are thin and dotted.
    """
    sizes = sorted({row.size_bytes for row in rows})
    with matplotlib.rc_context(style.SETTINGS):
        figure, [axes] = layout.panels(1, [_HEIGHT], left=13, between=0, handles=_legend(rows, fits, looks))
        for library, own in _by_library(rows).items():
            # A little aside, so that no library hides another.
            aside = 2 ** looks[library].shift
            layout.draw_points(axes, library, [_point(row, aside) for row in own], looks[library])
        for each in fits:
            for piece in each.fit.pieces:
                places = np.geomspace(piece.from_bytes, piece.to_bytes, 60)
                seconds = [1e6 * piece.seconds(size) for size in places]
                color = looks[each.case.library].color
                [line] = axes.plot(places, seconds, color=color, linewidth=0.7, linestyle=_DOTS, zorder=2.5)
                svg.mark(line, [each.case.library])
        title = "microseconds from the last rank's arrival to the last result"
        axes.set(yscale="log", title=title)
        layout.plain_log_axis(axes)
        svg.panel(axes, title)
        # Of many sizes some are named.
        every = math.ceil(len(sizes) / _MOST_TICKS)
        words = {size: "" if place % every else in_words(size) for place, size in enumerate(sizes)}
        layout.measured_places(axes, words, "size in bytes, as nccl-tests counts it")
        return svg.svg(figure)


def in_words(size_bytes: int) -> str:
    """A size as it stands at a tick: in units of 1024 where it's a whole number of them."""
    for unit, name in _UNITS:
        if size_bytes % unit == 0:
            return f"{size_bytes // unit}{name}"
    return f"{size_bytes:,}"


def _by_library(rows: Sequence[Row]) -> dict[str, list[Row]]:
    ordered = sorted(rows, key=lambda row: (row.case.library, row.size_bytes))
    return grouped(ordered, lambda row: row.case.library)


def _point(row: Row, aside: float) -> layout.Point:
    about = {"library": row.case.library + DAGGER * row.oversubscribed, "size": f"{in_words(row.size_bytes)}B"}
    low, high = row.seconds.low, row.seconds.high
    interval = None if low is None or high is None else (1e6 * low, 1e6 * high)
    told = f"{blocks.interval(*interval, blocks.number)} µs" if interval else "none: too few launches"
    median = {"median": _microseconds(row.seconds.median), "95 % interval": told, "launches (n)": row.seconds.n}
    return layout.Point(
        place=row.size_bytes * aside,
        launches=[1e6 * each for each in row.launch_seconds],
        median=1e6 * row.seconds.median,
        interval=interval,
        oversubscribed=row.oversubscribed,
        tip=about | median,
        tips_of_launches=[about | {"a launch": _microseconds(each)} for each in row.launch_seconds],
    )


def _microseconds(seconds: float) -> str:
    return f"{blocks.number(1e6 * seconds)} µs"


def _legend(rows: Sequence[Row], fits: Sequence[CaseFit], looks: Mapping[str, style.Style]) -> list[layout.Handle]:
    handles: list[layout.Handle] = []
    for library, own in _by_library(rows).items():
        handles.append(layout.line_handle(library, looks[library]))
        handles[-1].set_label(style.wrapped(library) + f" {DAGGER}" * any(row.oversubscribed for row in own))
    if fits:
        label = "alpha + size / beta, fitted"
        handles.append(Line2D([], [], color=style.INK, linewidth=0.7, linestyle=_DOTS, label=label))
    intervals, oversubscribed = (row.seconds.low is not None for row in rows), (row.oversubscribed for row in rows)
    return handles + layout.mark_handles(any(intervals), any(oversubscribed))
