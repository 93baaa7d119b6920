"""The figures with a bar for each strategy: how fast it is, and what its step consists of."""

import math
from collections.abc import Iterable, Mapping, Sequence

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, MaxNLocator

from common.observations import numbers
from reports import blocks
from reports.blocks import DAGGER
from reports.charts import layout, style, svg
from reports.charts.layout import DOTS

_ROW_PITCH, _MOST_ROWS_HEIGHT = 11.0, 72.0  # Millimetres: the first page has room for so much.
_LETTER = 1.27  # The width of a letter of a bar's name, in millimetres.
_LONGEST_NAME, _LONGEST_BASE = 26, 18  # Characters of a bar's name on a narrow page, and of a base in the legend.
_LONGEST_BAR = 2.5  # Times the median bar.
_BAR_PITCH = 9.0  # Millimetres.
_LETTER_OF_A_STEP, _LETTER_IN_A_BAR = 1.25, 1.35  # Millimetres.
_CEILING = "the framework's own products and transport"
_LEAST_WIDTH = 1e-9  # Milliseconds of a part: a rest of rounding alone would be drawn as a line.


def headline(
    cells: pd.DataFrame, launches: pd.DataFrame, looks: Mapping[str, style.Style], width: float = style.WIDTH
) -> bytes:
    """Samples per second: a bar for each cell, from the top, with its name at the left and its number beside it.

    `cells` are rows of `summaries.cells`, each of another strategy or number of workers, `launches` theirs. Every
    launch is a faint mark; a line is the interval of the median. The ideal of each base, so many times its rate as the
    most workers here are, is a dotted line.
    """
    most, rows = cells["workers"].max(), [*cells[["strategy", "workers"]].itertuples(index=False, name=None)]
    measured = cells.dropna(subset=["base"]).sort_values("base_samples_per_second")
    ideals = dict(zip(measured["base"], most * measured["base_samples_per_second"], strict=True))
    longest = blocks.LONGEST_NAME if width > style.NARROW else _LONGEST_NAME
    names = [name if workers == most else f"{name}, {blocks.workers(workers)}" for name, workers in rows]
    handles: list[layout.Handle] = []
    for base in ideals:
        label = f"{most} times {style.literal(blocks.shortened(base, _LONGEST_BASE))}"
        handles.append(Line2D([], [], color=style.color_of(base, looks), linewidth=0.9, linestyle=DOTS, label=label))
    handles.append(layout.mark_handle("o", 2.2, 0.6, "one launch"))
    handles += layout.interval_handles(cells["low_seconds"])
    left = 5 + _LETTER * min(longest, max(map(len, names)))
    with matplotlib.rc_context(style.SETTINGS):
        figure, [axes] = layout.panels(
            1,
            [len(rows) * min(_ROW_PITCH, _MOST_ROWS_HEIGHT / len(rows))],
            left=left,
            between=0,
            above=2,
            grid="x",
            handles=handles,
            one_line=width > style.NARROW,
            width=width,
        )
        svg.panel(axes, "samples per second")
        axes.set_xlabel("samples per second", fontsize=6.5, labelpad=2)
        for place, cell in enumerate(cells.to_dict("records")):
            own = launches[(launches["strategy"] == cell["strategy"]) & (launches["workers"] == cell["workers"])]
            alpha = 0.8 if cell["workers"] == most else 0.35
            _draw_rate(axes, place, cell, own, looks[cell["strategy"]].color, alpha)
        for base, rate in ideals.items():
            line = axes.axvline(rate, color=style.color_of(base, looks), linewidth=0.9, linestyle=DOTS)
            svg.mark(line, [base], {"base": base, f"{most} times its samples/s": f"{rate:,.0f}"})
        # Room for the number of the longest bar.
        number = 4 + _LETTER * max(len(f"{rate:,.0f}") for rate in cells["samples_per_second"])
        axes.set_xlim(0, max([*launches["samples_per_second"], *ideals.values()]) / (1 - number / (width - left - 2)))
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: numbers.short(value)))
        axes.tick_params(axis="x", labelsize=6.2)
        shown = [style.literal(blocks.shortened(name, longest)) for name in names]
        _name_bars(axes, shown, [name for name, _ in rows], [style.INK] * len(rows), 6.8)
        return svg.svg(figure)


def _draw_rate(
    axes: Axes, place: int, cell: Mapping[str, object], launches: pd.DataFrame, color: str, alpha: float
) -> None:
    """Draw the bar of a cell, its launches, the interval of its median and its number."""
    key, rate = [cell["strategy"]], cell["samples_per_second"]
    low, high = cell["global_batch"] / cell["high_seconds"], cell["global_batch"] / cell["low_seconds"]
    tip = _about(cell) | {
        "samples/s, median": f"{rate:,.0f}",
        "95 % interval": numbers.interval(low, high, "{:,.0f}".format),
        "speed-up": numbers.ratio(cell["speed_up"]),
        "efficiency": numbers.percent(cell["efficiency"]),
        "over own 1": numbers.ratio(cell["own_speed_up"]),
        "launches (n)": cell["n"],
    }
    [bar] = axes.barh(place, rate, height=0.62, color=color, alpha=alpha, zorder=2)
    svg.mark(bar, key, tip)
    if not math.isnan(low):
        interval = axes.hlines(place, low, high, color=style.INK, linewidth=1.4, zorder=3)
        svg.mark(interval, key, tip)
    [points] = axes.plot(launches["samples_per_second"], [place] * len(launches), "o", color=style.INK)
    points.set(markersize=2.2, alpha=0.4, markeredgewidth=0, zorder=3)
    tips = [
        _about(row) | {"launch (n = 1)": row["launch"], "samples/s": f"{row['samples_per_second']:,.0f}"}
        for row in launches.to_dict("records")
    ]
    svg.mark(points, key, *tips)
    end = max([rate, *launches["samples_per_second"], *([] if math.isnan(high) else [high])])
    where = {"xytext": (4, 0), "textcoords": "offset points", "va": "center", "bbox": style.PLATE}
    number = axes.annotate(f"{rate:,.0f}{DAGGER * cell['oversubscribed']}", (end, place), fontsize=6.5, **where)
    svg.mark(number, key)


def _about(row: Mapping[str, object]) -> dict[str, object]:
    """What a launch and a median say of themselves under the mouse."""
    workers = blocks.world(row["workers"], bool(row["oversubscribed"]))
    return {"strategy": row["strategy"], "workers": workers, "ms per step": blocks.milliseconds(row["seconds"])}


def _name_bars(axes: Axes, names: Sequence[str], keys: Iterable[str], colors: Iterable[str], size: float) -> None:
    """Write the name of each bar at its left, from the top; a click on it picks out what has its key."""
    axes.set_yticks(range(len(names)), names, fontsize=size)
    for label, key, color in zip(axes.get_yticklabels(), keys, colors, strict=True):
        label.set_color(color)
        svg.button(label, key)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def steps(table: pd.DataFrame, most_height: float = 130.0) -> bytes:
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
            left=6 + _LETTER_OF_A_STEP * min(blocks.LONGEST_NAME, table["strategy"].str.len().max()),
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
    bars = rows.drop_duplicates("strategy").sort_values("strategy")
    for place, step in enumerate(bars.to_dict("records")):
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
    axes.set_ylim(len(bars) - 0.4, -0.6)
    names, flags = bars["strategy"], bars["oversubscribed"]
    shown = [style.literal(blocks.shortened(name)) + DAGGER * flag for name, flag in zip(names, flags, strict=True)]
    _name_bars(axes, shown, names, [style.FAINT if flag else style.INK for flag in flags], 6.5)
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
