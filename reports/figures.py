"""Tables to figures: each function returns one SVG, the same bytes for the same input."""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, is_color_like, to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from common.contract.oracle import LOSS_TOLERANCE, TOLERATED_STEPS
from reports import blocks
from reports.certificate import Comparison, step_deviations
from reports.findings import crowded

_MILLIMETRE = 1 / 25.4
_WIDTH = 172 * _MILLIMETRE
INK, FAINT, _GREY = "#333333", "#8a8a8a", "#b9b9b9"

_NEUTRAL = ("#2e2e33", "#6b6b73", "#a6a6ae")  # From dark to light, for strategies whose records have no colors.
_MARKERS = "osD^vPX<>ph*"
_MARGIN = 0.25  # Octaves of workers left free on either side of a plot.
_LINES = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)))
_MOST_LINES_BESIDE = 20  # Lines of labels that stand apart at the right of a plot; a legend below it holds more.
MOST_RESIDUALS_NAMED = 3
_LONGEST_LINE = 34  # Characters that fit into a third of the width, beside a handle.
MOST_CURVES = 8  # Strategies that one panel can tell apart.
_PANELS_BESIDE, _PANEL_HEIGHT = 5, 29.0  # Panels in a row; millimetres.
_LONGEST_TITLE = 26  # Characters that fit above a fifth of the width.

PARTS = {
    "ideal": ("#dedbd4", ""),
    "computing": ("#3b4d8f", ""),
    "rows": ("#7fbfae", "\\\\\\\\"),
    "slowest rank": ("#f4dc8c", "...."),
    "exchange": ("#dd7e2d", "////"),
    "not divided": ("#b58bb3", "xxxx"),
    "the rest": ("#ffffff", ""),
}  # What a step consists of: colors that differ in lightness too, and hatches that survive a print in grey.
_BAR_PITCH, _MOST_BARS_HEIGHT = 4.4, 150.0  # Millimetres.
LONGEST_BAR = 2.5  # Times the median bar.
_LONGEST_NAME = 60  # Characters that leave room for bars beside them.
_ROW_PITCH, _MOST_ROWS_HEIGHT = 4.6, 66.0  # Millimetres: the first page has room for so much.
_NUMBERS_WIDTH = 0.058  # Of the figure: what a median's number takes beside its panel.

SETTINGS = {
    "svg.hashsalt": "lockstep",
    "svg.fonttype": "path",
    "font.family": "DejaVu Sans",
    "font.size": 7,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 7.5,
    "axes.titlelocation": "left",
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "lines.linewidth": 1.2,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.5,
}


@dataclass(frozen=True)
class Style:
    """How a strategy is drawn in every figure of a report, and its sideways shift in octaves of workers."""

    color: str
    marker: str
    line: str | tuple
    shift: float


def styles(colors: Mapping[str, Sequence[str]]) -> dict[str, Style]:
    """One style per strategy, from the colors of each, from dark to light, which are those of its family.

    The hue says the family; shade, line and marker say which of its strategies it is.
    """
    ordered = sorted(colors)
    families: dict[tuple[str, ...], list[str]] = {}
    for name in ordered:
        known = tuple(color for color in colors[name] if is_color_like(color))
        families.setdefault(known if len(known) > 1 else _NEUTRAL, []).append(name)
    found = {}
    for hue, members in families.items():
        shades = LinearSegmentedColormap.from_list("family", hue)
        # Neighbours, such as one strategy under several labels, are far apart in shade: dark, medium, light, dark, ...
        order = [index for start in range(3) for index in range(start, len(members), 3)]
        for position, name in enumerate(members):
            index = ordered.index(name)
            shift = 0.0 if len(ordered) == 1 else 0.16 * (index / (len(ordered) - 1) - 0.5)
            found[name] = Style(
                color=to_hex(shades((order.index(position) + 0.5) / len(members))),
                marker=_MARKERS[index % len(_MARKERS)],
                # Every third has the same kind of shade, so those must differ in their lines.
                line=_LINES[(position + position // 3) % len(_LINES)],
                shift=shift,
            )
    return {name: found[name] for name in ordered}


def headline(cells: pd.DataFrame, launches: pd.DataFrame, looks: dict[str, Style]) -> bytes:
    """Samples per second of one regime: a row for each strategy, a panel for each number of workers.

    `cells` and `launches` are the rows of `summaries.cells` and `summaries.launches` of that regime, with exchange.
    Every launch is a faint mark, the median a large one with its interval and its number. Each panel ends at N times
    the fastest base, whose ideal is a dotted line, so the distance to the right edge is what distribution costs.
    """
    names, counts = in_order_of_speed(cells), sorted(cells["workers"].unique())
    pitch = min(_ROW_PITCH, _MOST_ROWS_HEIGHT / len(names))
    ideals = _ideals(cells)
    handles = [_ideal_handle(base, looks) for base in ideals]
    handles += [_mark("o", 2.2, 0.6, "one launch"), _mark("|", 7, 1.8, "95 % interval of the median")]
    below = _legend_height(handles)
    height = pitch * len(names) + 15 + below
    left = (5 + 1.27 * min(_LONGEST_NAME, max(map(len, names)))) * _MILLIMETRE / _WIDTH
    panel = (0.995 - left) / len(counts)
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(_WIDTH, height * _MILLIMETRE))
        bottom, span = (8 + below) / height, pitch * len(names) / height
        for position, workers in enumerate(counts):
            axes = figure.add_axes((left + position * panel, bottom, panel - _NUMBERS_WIDTH, span))
            places = {name: place for place, name in enumerate(names)}
            shown = (cells[cells["workers"] == workers], launches[launches["workers"] == workers])
            _draw_rates(axes, *shown, looks, places, workers * max(ideals.values(), default=0.0))
            for base, rate in ideals.items():
                color = looks[base].color if base in looks else FAINT
                axes.axvline(workers * rate, color=color, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1.5)
            is_crowded = workers in crowded(cells)
            axes.set_title(blocks.workers(int(workers)) + (" \N{DAGGER}" if is_crowded else ""), pad=3)
            axes.set_facecolor("#f5f3f0" if is_crowded else "none")
            axes.set_xlabel("samples per second", fontsize=6.5, labelpad=2)
            axes.set_yticks([])
            if not position:
                axes.set_yticks(range(len(names)), [literal(name) for name in names], fontsize=6.5)
                for label, name in zip(axes.get_yticklabels(), names, strict=True):
                    label.set_color(looks[name].color)
                axes.tick_params(axis="y", length=0)
        _draw_legend(figure, handles)
        return svg(figure)


def in_order_of_speed(cells: pd.DataFrame) -> list[str]:
    """The strategies of one regime by their rate with the most workers that aren't crowded everywhere, then with fewer.

    A strategy that wasn't measured with so many stands below all that were.
    """
    counts = sorted(cells["workers"].unique(), reverse=True)
    over = set(crowded(cells))
    order = [count for count in counts if count not in over] + [count for count in counts if count in over]
    rates = cells.pivot_table(index="strategy", columns="workers", values="samples_per_second")[order]
    return rates.sort_values([*rates.columns], ascending=False, na_position="last").index.tolist()


def _ideals(cells: pd.DataFrame) -> dict[str, float]:
    """Samples per second of each base that was measured, the slowest first."""
    found = cells.dropna(subset=["base"]).drop_duplicates("base")
    rates = dict(zip(found["base"], found["base_samples_per_second"], strict=True))
    return dict(sorted(rates.items(), key=lambda item: (item[1], item[0])))


def _draw_rates(
    axes: Axes,
    cells: pd.DataFrame,
    launches: pd.DataFrame,
    looks: dict[str, Style],
    places: Mapping[str, int],
    ideal: float,
) -> None:
    """One panel of the headline: the launches, intervals, medians and numbers of one number of workers."""
    limit = 1.03 * max(ideal, launches["samples_per_second"].max())
    for name, group in launches.groupby("strategy"):
        axes.plot(
            *(group["samples_per_second"], [places[name]] * len(group)),
            **{"linestyle": "none", "marker": "o", "markersize": 2.2, "color": looks[name].color, "alpha": 0.3},
            **{"markeredgewidth": 0},
        )
    for row in cells.to_dict("records"):
        look, place = looks[row["strategy"]], places[row["strategy"]]
        if not math.isnan(row["low_seconds"]):
            ends = (row["global_batch"] / row["high_seconds"], row["global_batch"] / row["low_seconds"])
            axes.hlines(place, *ends, color=look.color, linewidth=2.2, alpha=0.6)
        fill = "white" if row["oversubscribed"] else look.color
        axes.plot(
            *(row["samples_per_second"], place),
            **{"marker": look.marker, "markersize": 4.6, "color": look.color, "markerfacecolor": fill},
            **{"markeredgewidth": 0.8},
        )
        said = f"{row['samples_per_second']:,.0f}"
        color = FAINT if row["oversubscribed"] else INK
        axes.annotate(
            *(said, (1.0, place)),
            **{"xycoords": ("axes fraction", "data"), "xytext": (21, 0), "textcoords": "offset points"},
            **{"ha": "right", "va": "center", "fontsize": 6.2, "color": color, "annotation_clip": False},
        )
    axes.set_xlim(0, limit)
    axes.set_ylim(len(places) - 0.5, -0.5)
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axes.hlines(range(len(places)), 0, limit, color="#e9e7e3", linewidth=0.5, zorder=0.5)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="x", labelsize=6.2)


def _ideal_handle(base: str, looks: dict[str, Style]) -> Line2D:
    color = looks[base].color if base in looks else FAINT
    label = f"ideal: N times {literal(base)}"
    return Line2D([], [], color=color, linewidth=0.9, linestyle=(0, (1, 2)), label=label)


def curves(cells: pd.DataFrame, launches: pd.DataFrame, looks: dict[str, Style]) -> bytes:
    """Throughput, speed-up over either base, and efficiency by workers for one regime, with every launch."""
    with matplotlib.rc_context(SETTINGS):
        handles = _legend(cells, looks)
        below = _legend_height(handles)
        height = 121 + below
        figure = Figure(figsize=(_WIDTH, height * _MILLIMETRE))
        bottom = (12 + below) / height
        grid = figure.add_gridspec(2, 2, left=0.075, right=0.99, top=0.955, bottom=bottom, hspace=0.36, wspace=0.2)
        panels = [figure.add_subplot(grid[row, column]) for row in range(2) for column in range(2)]
        for axes in panels:
            _shade_oversubscribed(axes, cells)
        _draw_throughput(panels[0], cells, launches, looks)
        panels[0].set_title("samples per second")
        _draw_ratio(panels[1], cells, launches, looks, "base_samples_per_second", per_worker=False)
        panels[1].set_title("speed-up over the undistributed base")
        _draw_ratio(panels[2], cells, launches, looks, "base_samples_per_second", per_worker=True)
        panels[2].set_title("efficiency: that speed-up per worker")
        _draw_ratio(panels[3], cells, launches, looks, "own_samples_per_second", per_worker=False)
        panels[3].set_title("speed-up over one worker of the same strategy")
        for axes in panels[2:]:
            axes.set_xlabel("workers")
        _draw_legend(figure, handles)
        return svg(figure)


def multiples(cells: pd.DataFrame, launches: pd.DataFrame, looks: dict[str, Style]) -> bytes:
    """Throughput by workers for one regime, a small panel for each strategy, with those of all others in grey.

    `cells` and `launches` as in `curves`, for more strategies than one panel can tell apart.
    """
    names = in_order_of_speed(cells)
    rows = math.ceil(len(names) / _PANELS_BESIDE)
    handles = [_mark("o", 2.6, 0.6, "one launch"), Line2D([], [], color=_GREY, linewidth=0.6, label="the others")]
    handles += [Line2D([], [], color=INK, linewidth=0.9, linestyle=(0, (1, 2)), label="ideal: N times its base")]
    below = _legend_height(handles)
    height = rows * _PANEL_HEIGHT + 12 + below
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(_WIDTH, height * _MILLIMETRE))
        grid = figure.add_gridspec(
            *(rows, _PANELS_BESIDE),
            **{"left": 0.06, "right": 0.995, "top": 1 - 5 / height, "bottom": (11 + below) / height},
            **{"hspace": 0.42, "wspace": 0.1},
        )
        lines = [own[["workers", "samples_per_second"]].to_numpy() for _, own in cells.groupby("strategy")]
        first = None
        for place, name in enumerate(names):
            axes = figure.add_subplot(grid[divmod(place, _PANELS_BESIDE)], sharex=first, sharey=first)
            axes.add_collection(LineCollection(lines, colors=_GREY, linewidths=0.5, zorder=1))
            own = (cells[cells["strategy"] == name], launches[launches["strategy"] == name])
            _draw_multiple(axes, *own, looks[name])
            axes.set_title(_wrapped(name, _LONGEST_TITLE), fontsize=6.2, color=looks[name].color, pad=2)
            is_last = place + _PANELS_BESIDE >= len(names)
            axes.tick_params(labelsize=5.8, labelleft=place % _PANELS_BESIDE == 0, labelbottom=is_last)
            if first is None:
                first = axes
                _workers_axis(axes, cells)
                axes.set_yscale("log")
                axes.set_ylim(0.8 * cells["samples_per_second"].min(), 1.3 * _largest_ideal(cells))
                _plain_log_axis(axes)
        figure.text(0.06, (3.5 + below) / height, "samples per second of all workers, by workers", fontsize=6.5)
        _draw_legend(figure, handles)
        return svg(figure)


def _draw_multiple(axes: Axes, cells: pd.DataFrame, launches: pd.DataFrame, look: Style) -> None:
    """One panel of `multiples`: a strategy's launches, its medians, and the ideal over its base."""
    ordered = cells.sort_values("workers")
    for crowded_too, group in launches.groupby("oversubscribed"):
        axes.plot(
            *(group["workers"], group["samples_per_second"]),
            **{"linestyle": "none", "marker": "o", "markersize": 2.4, "markeredgewidth": 0.5, "color": look.color},
            **{"markerfacecolor": "none" if crowded_too else look.color, "alpha": 0.6},
        )
    axes.plot(ordered["workers"], ordered["samples_per_second"], color=look.color, linewidth=1.3)
    known = ordered.dropna(subset=["base_samples_per_second"])
    ideal = known["workers"] * known["base_samples_per_second"]
    axes.plot(known["workers"], ideal, color=INK, linewidth=0.9, linestyle=(0, (1, 2)))
    axes.grid(axis="y")
    axes.set_axisbelow(True)


def _largest_ideal(cells: pd.DataFrame) -> float:
    """The highest point that a panel of `multiples` has to show."""
    ideals = cells["workers"] * cells["base_samples_per_second"]
    return max(cells["samples_per_second"].max(), float(np.nan_to_num(ideals.max())))


def losses(comparisons: Sequence[Comparison], looks: dict[str, Style]) -> bytes:
    """Loss curves on the oracle's, and their relative deviation from it, of launches that share one oracle.

    Of the launches of one strategy and worker count the one that deviates most is drawn.
    """
    with matplotlib.rc_context(SETTINGS):
        names = sorted({comparison.strategy for comparison in comparisons})
        lines = sum(1 + name.count(", ") for name in names) + 2
        beside = lines <= _MOST_LINES_BESIDE
        break_label = _broken if beside else _wrapped
        handles = [Line2D([], [], color="#c9c9c9", linewidth=4.5, label="oracle (NumPy, float64)")]
        handles += [_handle(break_label(name), looks[name]) for name in names]
        below = 0.0 if beside else _legend_height(handles)
        height = max(46.0, 12 + 3.1 * lines) if beside else 60 + below
        figure = Figure(figsize=(_WIDTH, height * _MILLIMETRE))
        bottom, top = (10 + below) / height, 1 - 5 / height
        left = figure.add_axes((0.06, bottom, 0.345 if beside else 0.42, top - bottom))
        right = figure.add_axes((0.475, bottom, 0.31, top - bottom) if beside else (0.56, bottom, 0.43, top - bottom))
        oracle = max((comparison.oracle_losses for comparison in comparisons), key=len)
        left.plot(oracle, color="#c9c9c9", linewidth=4.5, solid_capstyle="round", zorder=1)
        for position, comparison in enumerate(comparisons):
            _draw_losses(left, right, comparison, looks[comparison.strategy], position / len(comparisons), len(oracle))
        left.set_title("loss, the mean over the global batch")
        right.set_title("relative deviation from the oracle")
        _finish_deviation_axis(right, len(oracle))
        for axes in (left, right):
            axes.set_xlabel("step")
            axes.grid(axis="y")
            axes.set_xlim(-0.02 * len(oracle), 1.02 * len(oracle))
        if beside:
            figure.legend(
                **{"handles": handles, "loc": "upper left", "bbox_to_anchor": (0.79, 1.0), "frameon": False},
                **{"fontsize": 6, "handlelength": 2.4},
            )
        else:
            _draw_legend(figure, handles)
        return svg(figure)


def residuals(comparisons: pd.DataFrame) -> bytes:
    """The log ratio of each pair in each round, less the pair's mean: a line for each row of `Ranking.comparisons`.

    The three lines with the farthest points are drawn in ink and named.
    """
    lines = []
    for row in comparisons.to_dict("records"):
        percent = 100 * np.expm1(np.array(row["logs"]) - np.mean(row["logs"]))
        lines.append((literal(f"{row['strategy']} over\n{row['other']}"), np.array(row["rounds"]), percent))
    lines.sort(key=lambda line: np.abs(line[2]).max())
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(_WIDTH, 62 * _MILLIMETRE))
        axes = figure.add_axes((0.085, 0.16, 0.69, 0.8))
        axes.axhline(0, color=FAINT, linewidth=0.6)
        for position, (_, rounds, percent) in enumerate(lines):
            color, width = (INK, 0.9) if len(lines) - position <= MOST_RESIDUALS_NAMED else (_GREY, 0.6)
            axes.plot(rounds, percent, color=color, linewidth=width, marker="o", markersize=2.4)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
        axes.set_xlabel("round")
        axes.set_ylabel("ratio of a pair over its mean")
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        _name_farthest(axes, lines[-MOST_RESIDUALS_NAMED:])
        return svg(figure)


def _name_farthest(axes: Axes, lines: Sequence[tuple[str, np.ndarray, np.ndarray]]) -> None:
    """The names of these lines at the right, each joined to its farthest point."""
    places = [int(np.argmax(np.abs(percent))) for _, _, percent in lines]
    ends = [(name, rounds[place], percent[place]) for (name, rounds, percent), place in zip(lines, places, strict=True)]
    ends.sort(key=lambda end: end[2])
    axes.set_ylim(axes.get_ylim())
    to_fraction = axes.transData + axes.transAxes.inverted()
    natural = [to_fraction.transform((x, y))[1] for _, x, y in ends]
    for (name, x, y), height in zip(ends, _spread(natural, [2] * len(ends), line=0.065), strict=True):
        _label_at_right(axes, name, (x, y), height, INK)


def scaling(table: pd.DataFrame) -> bytes:
    """A bar for each strategy, a panel for each number of workers: the ideal step, then what it takes beyond it.

    `table` are the rows of `scaling.table` of one regime, with `products_seconds`, what the framework's products alone
    take, NaN where no probe tells; a triangle marks it. Parts below zero stand left of zero; a line marks the
    measured step, which is the sum of all. The bar of a strategy with more threads than cores is pale.
    """
    bars = table.groupby("workers")["strategy"].nunique()
    pitch = min(_BAR_PITCH, _MOST_BARS_HEIGHT / bars.sum())
    shown = {"ideal", *table["part"]}
    handles = [_part_handle(part) for part in PARTS if part in shown]
    handles.append(_mark("|", 7, 1.4, "measured step"))
    if table["products_seconds"].notna().any():
        handles.append(_mark("^", 3.4, 0.6, "the framework's products alone"))
    below = _legend_height(handles) + 4
    height = pitch * bars.sum() + 11 * len(bars) + below
    left = (6 + 1.25 * min(_LONGEST_NAME, table["strategy"].str.len().max())) * _MILLIMETRE / _WIDTH
    with matplotlib.rc_context(SETTINGS | {"hatch.linewidth": 0.4}):
        figure = Figure(figsize=(_WIDTH, height * _MILLIMETRE))
        top = height
        for workers, rows in table.groupby("workers"):
            bottom = top - 5 - pitch * bars[workers]
            axes = figure.add_axes((left, bottom / height, 0.9 - left, pitch * bars[workers] / height))
            axes.set_title(f"{workers} worker{'s' if workers > 1 else ''}", pad=3)
            _draw_bars(axes, rows)
            top = bottom - 6
        axes.set_xlabel("milliseconds per step")
        _draw_legend(figure, handles)
        return svg(figure)


def _draw_bars(axes: Axes, rows: pd.DataFrame) -> None:
    """The bars of one number of workers, from the top; one that is far longer than most is cut."""
    bars = []
    for name, own in rows.groupby("strategy"):
        lengths = {"ideal": own["ideal_seconds"].iloc[0]} | dict(zip(own["part"], own["seconds"], strict=True))
        lengths = {part: 1000 * lengths[part] for part in PARTS if part in lengths}
        bars.append((name, own.iloc[0], lengths, sum(max(0.0, length) for length in lengths.values())))
    ends = [end for *_, end in bars]
    limit = min(max(ends), LONGEST_BAR * float(np.median(ends)))
    for position, (_, cell, lengths, end) in enumerate(bars):
        _draw_bar(axes, position, lengths, alpha=0.4 if cell["oversubscribed"] else 1.0)
        measured = 1000 * cell["measured_seconds"]
        axes.plot([measured] * 2, [position - 0.46, position + 0.46], color=INK, linewidth=1.4)
        if not math.isnan(cell["products_seconds"]):
            place = (1000 * cell["products_seconds"], position + 0.4)
            axes.plot(*place, marker="^", markersize=3.4, color=INK, markerfacecolor="white", markeredgewidth=0.6)
        said = f"{blocks.number(measured)} ms{' »' if end > limit else ''}"
        place = {"xytext": (3, 0), "textcoords": "offset points", "va": "center", "annotation_clip": False}
        axes.annotate(said, (min(end, limit), position), fontsize=6.2, **place)
    below_zero = min(sum(min(0.0, length) for length in lengths.values()) for *_, lengths, _ in bars)
    axes.set_xlim(1.02 * below_zero, 1.01 * limit)
    axes.set_ylim(len(bars) - 0.5, -0.5)
    names = [literal(f"{name}\N{DAGGER}" if cell["oversubscribed"] else name) for name, cell, *_ in bars]
    axes.set_yticks(range(len(bars)), names, fontsize=6.5)
    for label, (_, cell, *_) in zip(axes.get_yticklabels(), bars, strict=True):
        label.set_color(FAINT if cell["oversubscribed"] else INK)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.axvline(0, color=FAINT, linewidth=0.6)
    axes.grid(axis="x")
    axes.set_axisbelow(True)


def _draw_bar(axes: Axes, position: int, lengths: Mapping[str, float], alpha: float) -> None:
    """Lengths above zero one after another to the right of zero, those below to its left."""
    left = right = 0.0
    for part, length in lengths.items():
        # A rest of rounding alone would be drawn as a line.
        if abs(length) < 1e-9:
            continue
        color, hatch = PARTS[part]
        start = right if length > 0 else left + length
        left, right = min(left, left + length), max(right, right + length)
        edge = {"edgecolor": INK, "linewidth": 0.3, "hatch": hatch}
        axes.barh(position, abs(length), left=start, height=0.7, color=color, alpha=alpha, **edge)


def _part_handle(part: str) -> Patch:
    color, hatch = PARTS[part]
    return Patch(facecolor=color, edgecolor=INK, linewidth=0.3, hatch=hatch, label=part)


def _draw_throughput(axes: Axes, cells: pd.DataFrame, launches: pd.DataFrame, looks: dict[str, Style]) -> None:
    _draw_points(axes, launches, launches["samples_per_second"], looks)
    _draw_medians(axes, cells, cells["samples_per_second"], looks, intervals=True)
    workers = np.array(sorted(cells["workers"].unique()))
    bases = cells.dropna(subset=["base"]).drop_duplicates("base")
    for base, speed in zip(bases["base"], bases["base_samples_per_second"], strict=True):
        color = looks[base].color if base in looks else FAINT
        axes.plot(workers, workers * speed, color=color, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1.5)
    _workers_axis(axes, cells)
    axes.set_yscale("log")
    _plain_log_axis(axes)


def _draw_ratio(
    axes: Axes, cells: pd.DataFrame, launches: pd.DataFrame, looks: dict[str, Style], base: str, per_worker: bool
) -> None:
    bases = cells.set_index(["strategy", "workers"])[base]
    base_of_launch = [bases[key] for key in zip(launches["strategy"], launches["workers"], strict=True)]
    points = launches["samples_per_second"] / base_of_launch / (launches["workers"] if per_worker else 1)
    _draw_points(axes, launches, points, looks)
    ratio = cells["samples_per_second"] / cells[base] / (cells["workers"] if per_worker else 1)
    _draw_medians(axes, cells, ratio, looks, intervals=False)
    workers = np.array(sorted(cells["workers"].unique()))
    ideal = np.ones(len(workers)) if per_worker else workers
    axes.plot(workers, ideal, color=INK, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1.5)
    _workers_axis(axes, cells)
    if ratio.notna().sum() == 0:
        axes.text(0.5, 0.4, "the base wasn't measured", transform=axes.transAxes, ha="center", color=FAINT)
    if per_worker:
        axes.set_ylim(0, max(1.1, 1.06 * float(np.nan_to_num(points.max()))))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))
    else:
        axes.set_yscale("log")
        _plain_log_axis(axes)


def _draw_points(axes: Axes, launches: pd.DataFrame, values: pd.Series, looks: dict[str, Style]) -> None:
    """Every launch: hollow where its workers had more threads than the machine has cores."""
    shown = launches.assign(value=values)
    for (strategy, oversubscribed), group in shown.groupby(["strategy", "oversubscribed"]):
        look = looks[strategy]
        axes.plot(
            group["workers"] * 2**look.shift,
            group["value"],
            linestyle="none",
            marker=look.marker,
            markersize=3.4,
            markerfacecolor="none" if oversubscribed else look.color,
            markeredgecolor=look.color,
            markeredgewidth=0.6,
            alpha=0.65,
            zorder=3,
        )


def _draw_medians(axes: Axes, cells: pd.DataFrame, values: pd.Series, looks: dict[str, Style], intervals: bool) -> None:
    for strategy, group in cells.assign(value=values).sort_values("workers").groupby("strategy"):
        look = looks[strategy]
        x = group["workers"] * 2**look.shift
        axes.plot(x, group["value"], color=look.color, linestyle=look.line, zorder=2)
        # A short bar marks a median where no line of its own would show it.
        axes.plot(x, group["value"], linestyle="none", marker="_", markersize=7, color=look.color, zorder=2.5)
        known = group.dropna(subset=["low_seconds"])
        if intervals and len(known):
            low, high = known["global_batch"] / known["high_seconds"], known["global_batch"] / known["low_seconds"]
            axes.vlines(known["workers"] * 2**look.shift, low, high, color=look.color, linewidth=1.8, zorder=2.6)


def _shade_oversubscribed(axes: Axes, cells: pd.DataFrame) -> None:
    """A grey ground from halfway before the smallest oversubscribed number of workers on."""
    over = crowded(cells)
    if not over:
        return
    below = [workers for workers in cells["workers"].unique() if workers < over[0]]
    start = math.sqrt(max(below) * over[0]) if below else over[0] * 2**-_MARGIN
    axes.axvspan(start, over[-1] * 2**_MARGIN, color="#f1efec", linewidth=0, zorder=0)


def _workers_axis(axes: Axes, cells: pd.DataFrame) -> None:
    workers = sorted(cells["workers"].unique())
    over = crowded(cells)
    axes.set_xscale("log", base=2)
    axes.set_xticks(workers, [f"{count}†" if count in over else str(count) for count in workers])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(workers[0] * 2**-_MARGIN, workers[-1] * 2**_MARGIN)
    axes.grid(axis="y")
    axes.set_axisbelow(True)


def _plain_log_axis(axes: Axes) -> None:
    """Ticks at 1, 2 and 5 times powers of ten, written out."""
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=30))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    low, high = axes.get_ylim()
    # At least a factor of four, so that two ticks always show and noise doesn't fill the panel.
    if high / low < 4:
        middle = math.sqrt(low * high)
        axes.set_ylim(middle / 2, middle * 2)


def _short(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:g} M"
    return f"{value / 1e3:g} k" if value >= 1000 else f"{value:g}"


def _label_at_right(axes: Axes, name: str, point: tuple[float, float], height: float, color: str) -> None:
    """A name beside the plot, at this share of its height, with a line to a point."""
    axes.annotate(
        name,
        xy=point,
        xytext=(1.035, height),
        textcoords="axes fraction",
        va="center",
        fontsize=6.8,
        color=color,
        annotation_clip=False,
        arrowprops={
            "arrowstyle": "-",
            "color": color,
            "linewidth": 0.4,
            "alpha": 0.5,
            "relpos": (0, 0.5),
            "shrinkA": 1,
            "shrinkB": 3,
        },
    )


def _spread(positions: Sequence[float], lines: Sequence[int], line: float = 0.048) -> list[float]:
    """Ascending `positions` in 0 to 1 of labels of so many `lines`, moved as little as it takes to stand apart inside.

    A line takes `line` of the height, or less where there are too many for it.
    """
    # Labels are centred on their positions: half of each of two neighbours lies between them.
    between = [(below + above) / 2 for below, above in pairwise(lines)]
    line = min(line, 0.98 / max(1.0, sum(between)))
    # Few reports have such labels, and its import takes as long as drawing a figure.
    from scipy.optimize import isotonic_regression

    # Less the distance that it keeps from the first, each must only be no lower than the one before: isotonic.
    offsets = line * np.concatenate([[0.0], np.cumsum(between)])
    fitted = isotonic_regression(np.asarray(positions) - offsets).x
    return (np.clip(fitted, 0.0, max(0.0, 1.0 - offsets[-1])) + offsets).tolist()


def literal(name: str) -> str:
    """`name` as Matplotlib shows it, which would set what stands between dollars as a formula."""
    return name.replace("$", r"\$")


def _broken(name: str) -> str:
    """A strategy's name with each option of its label on a line of its own."""
    return literal(name).replace(", ", ",\n")


def _draw_losses(left: Axes, right: Axes, comparison: Comparison, look: Style, phase: float, steps: int) -> None:
    """One launch in both panels, its markers shifted by `phase` so that curves on one another all stay visible."""
    every = max(1, steps // 6)
    marks = {"marker": look.marker, "markersize": 3, "markevery": (int(phase * every), every), "color": look.color}
    shown = comparison.losses[: len(comparison.oracle_losses)]
    x = comparison.first_step + np.arange(len(shown))
    left.plot(x, shown, linewidth=0.7, **marks)
    deviations = step_deviations(comparison)
    # Zero has no logarithm: a loss equal to the oracle's in every digit is drawn at the bottom.
    right.plot(x, np.maximum(deviations, 1e-10), linewidth=0.7, alpha=0.85, **marks)


def _finish_deviation_axis(axes: Axes, steps: int) -> None:
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, 5e-11), max(high, 5e-5))
    end = min(steps, TOLERATED_STEPS)
    axes.hlines(LOSS_TOLERANCE, 0, end, color=INK, linewidth=0.9)
    axes.text(0, LOSS_TOLERANCE * 1.25, f"tolerated over {end} steps", fontsize=6, va="bottom")


def _legend(cells: pd.DataFrame, looks: dict[str, Style]) -> list[Line2D]:
    handles = [_handle(_wrapped(name), looks[name]) for name in sorted(cells["strategy"].unique())]
    handles.append(Line2D([], [], color=INK, linewidth=0.9, linestyle=(0, (1, 2)), label="ideal: N times the base"))
    if cells["oversubscribed"].any():
        handles.append(_mark("o", 3.4, 0.6, "\N{DAGGER} more threads than cores"))
    if cells["low_seconds"].notna().any():
        handles.append(_mark("|", 7, 1.8, "95 % interval of the median"))
    return handles


def _legend_columns(handles: Sequence[Line2D | Patch]) -> int:
    longest = max(len(line) for handle in handles for line in handle.get_label().split("\n"))
    return 3 if longest > 25 else 4


def _legend_height(handles: Sequence[Line2D | Patch]) -> float:
    """Millimetres that `_draw_legend` takes: its columns are filled one after another, with as many handles in each."""
    columns = np.array_split(np.array([handle.get_label() for handle in handles]), _legend_columns(handles))
    return 2 + max(sum(1.2 + 2.75 * (1 + label.count("\n")) for label in column) for column in columns)


def _draw_legend(figure: Figure, handles: Sequence[Line2D | Patch]) -> None:
    """All handles in columns over the whole width, at the bottom of the figure."""
    figure.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0.06, 0.0, 0.93, 0.0),
        mode="expand",
        ncols=_legend_columns(handles),
        frameon=False,
        fontsize=6.5,
        handlelength=2.8,
    )


def _wrapped(name: str, longest: int = _LONGEST_LINE) -> str:
    """A strategy's name broken between the options of its label, only where a line would get too long."""
    first, *options = literal(name).split(", ")
    lines = [first]
    for option in options:
        if len(f"{lines[-1]}, {option}") <= longest:
            lines[-1] += f", {option}"
        else:
            lines[-1] += ","
            lines.append(option)
    return "\n".join(lines)


def _mark(marker: str, size: float, edge: float, label: str) -> Line2D:
    look = {"linestyle": "none", "color": INK, "markerfacecolor": "none"}
    return Line2D([], [], marker=marker, markersize=size, markeredgewidth=edge, label=label, **look)


def _handle(name: str, look: Style) -> Line2D:
    return Line2D([], [], color=look.color, linestyle=look.line, marker=look.marker, markersize=3.4, label=name)


def svg(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()
