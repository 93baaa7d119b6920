"""The figure of what steps consist of: the ideal one, then what they take beyond it."""

import math

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

_LONGEST_BAR = 2.5  # Times the median bar.
_BAR_PITCH = 9.0  # Millimetres.
_LETTER, _LETTER_IN_A_BAR = 1.25, 1.35  # Millimetres.
_CEILING = "the framework's own products and transport"
_LEAST_WIDTH = 1e-9  # Milliseconds of a part: a rest of rounding alone would be drawn as a line.


def scaling(table: pd.DataFrame, most_height: float = 130.0) -> bytes:
    """A bar for each strategy, a panel for each number of workers: the ideal step, then what it takes beyond it.

    `table` are the rows of `decomposition.parts` of one regime, with `ceiling_seconds`, what the framework's own
    products and transport take, NaN where no probe tells; a triangle marks it. Parts say their names where these fit.
    Those below zero stand left of zero; a line marks the measured step, which is the sum of all. The bar of a strategy
    with more threads than cores is pale. All bars are at most `most_height` millimetres high.
    """
    bars = table.groupby("workers")["strategy"].nunique()
    pitch = min(_BAR_PITCH, most_height / bars.sum())
    handles: list[layout.Handle] = []
    for part, (color, hatch) in style.PARTS.items():
        if part == "ideal" or (table["part"] == part).any():
            look = {"facecolor": color, "hatch": hatch, "edgecolor": style.INK, "linewidth": 0.3}
            handles.append(Patch(**look, label=part, gid=part))
    handles.append(layout.mark_handle("|", 7, 1.4, "measured step"))
    if table["ceiling_seconds"].notna().any():
        handles.append(layout.mark_handle("^", 3.4, 0.6, _CEILING))
    with matplotlib.rc_context(style.SETTINGS | {"hatch.linewidth": 0.4}):
        figure, panels = layout.panels(
            len(bars),
            [pitch * count for count in bars],
            left=6 + _LETTER * min(blocks.LONGEST_NAME, table["strategy"].str.len().max()),
            between=0,
            right=14,
            grid="x",
            handles=handles,
        )
        for axes, (workers, rows) in zip(panels, _placed(table).groupby("workers"), strict=True):
            axes.set_title(blocks.workers(int(workers)), pad=3)
            svg.panel(axes, f"{blocks.workers(int(workers))}: milliseconds per step")
            _draw_bars(axes, rows)
        panels[-1].set_xlabel("milliseconds per step")
        return svg.svg(figure)


def _placed(table: pd.DataFrame) -> pd.DataFrame:
    """The ideal steps and the parts of a table in the order of a bar, with their `left` and `width` in milliseconds.

    Parts above zero go one after another to the right of zero, those below to its left.
    """
    ideal = table.drop_duplicates(["workers", "strategy"])
    ideal = ideal.assign(part="ideal", seconds=ideal["ideal_seconds"], low=math.nan, high=math.nan, n=math.nan)
    parts = pd.concat([ideal, table], ignore_index=True)
    parts = parts.sort_values("part", key=lambda part: part.map([*style.PARTS].index), kind="stable")
    length, bar = 1000 * parts["seconds"], [parts["workers"], parts["strategy"]]
    above, below = length.clip(lower=0), length.clip(upper=0)
    left = (above.groupby(bar).cumsum() - above).where(length > 0, below.groupby(bar).cumsum())
    return parts.assign(left=left, width=length.abs())


def _draw_bars(axes: Axes, rows: pd.DataFrame) -> None:
    """The bars of one number of workers, from the top; one that is far longer than most is cut."""
    ends = (rows["left"] + rows["width"]).groupby(rows["strategy"]).max()
    limit = min(ends.max(), _LONGEST_BAR * ends.median())
    axes.set_xlim(1.02 * rows["left"].min(), 1.01 * limit)
    steps = rows.drop_duplicates("strategy").sort_values("strategy")
    for place, step in enumerate(steps.to_dict("records")):
        name, workers = step["strategy"], blocks.world(step["workers"], step["oversubscribed"])
        about = {"strategy": name, "workers": workers}
        _draw_parts(axes, rows[rows["strategy"] == name], place, about, limit)
        measured, ceiling = 1000 * step["measured_seconds"], 1000 * step["ceiling_seconds"]
        written = f"{blocks.number(measured)} ms"
        [line] = axes.plot([measured] * 2, [place - 0.42, place + 0.42], color=style.INK, linewidth=1.4)
        # A halo lets it stand out from whatever it crosses.
        line.set(path_effects=[withStroke(linewidth=2.8, foreground=style.PAPER)], solid_capstyle="butt")
        svg.mark(line, [name], about | {"measured step": written, "launches (n)": step["measured_n"]})
        if not math.isnan(ceiling):
            [triangle] = axes.plot(ceiling, place + 0.36, "^", color=style.INK, markersize=3.8, clip_on=False)
            triangle.set(markerfacecolor=style.PAPER, markeredgewidth=0.7, zorder=4)
            svg.mark(triangle, [name], about | {_CEILING: f"{blocks.number(ceiling)} ms"})
        where = {"xytext": (5, 0), "textcoords": "offset points", "va": "center", "annotation_clip": False}
        written += " »" * bool(ends[name] > limit)
        number = axes.annotate(written, (min(ends[name], limit), place), fontsize=6.2, **where)
        svg.mark(number, [name])
    axes.set_ylim(len(steps) - 0.4, -0.6)
    flags = dict(zip(steps["strategy"], steps["oversubscribed"], strict=True))
    names = [style.literal(blocks.shortened(name)) + DAGGER * flag for name, flag in flags.items()]
    axes.set_yticks(range(len(names)), names, fontsize=6.5)
    for label, (name, flag) in zip(axes.get_yticklabels(), flags.items(), strict=True):
        label.set_color(style.FAINT if flag else style.INK)
        svg.button(label, name)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.axvline(0, color=style.FAINT, linewidth=0.6)


def _draw_parts(axes: Axes, cell: pd.DataFrame, place: float, about: dict[str, str], limit: float) -> None:
    """Draw the parts of a step, each from where the one before ends up to the limit, with its name where that fits."""
    axes_inches = axes.get_position().width * axes.get_figure().get_figwidth()
    letter = _LETTER_IN_A_BAR * style.MILLIMETRE / axes_inches * float(np.ptp(axes.get_xlim()))
    for row in cell[cell["width"] >= _LEAST_WIDTH].to_dict("records"):
        color, hatch = style.PARTS[row["part"]]
        look = {"edgecolor": style.INK, "linewidth": 0.3, "hatch": hatch, "color": color}
        look["alpha"] = 0.4 if row["oversubscribed"] else 1.0
        [bar] = axes.barh(place, row["width"], left=row["left"], height=0.7, **look)
        interval = numbers.interval(row["low"], row["high"], blocks.milliseconds)
        tip = {"part": row["part"], "per step": f"{blocks.milliseconds(row['seconds'])} ms"}
        tip |= {"95 % interval, ms": interval, "n": blocks.DASH if math.isnan(row["n"]) else f"{row['n']:.0f}"}
        svg.mark(bar, [row["part"], about["strategy"]], about | tip)
        shown = min(row["left"] + row["width"], limit) - row["left"]
        if shown > letter * (len(row["part"]) + 1):
            look = {"fontsize": 6.2, "bbox": style.PLATE, "ha": "center", "va": "center_baseline"}
            axes.text(row["left"] + shown / 2, place, row["part"], **look)
