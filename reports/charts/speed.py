"""Figures of how fast strategies are: the rates of one regime by strategy, and rates and ratios by workers.

Each function returns one SVG, the same bytes for the same input.
"""

import math
from collections.abc import Mapping

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from reports import blocks
from reports.charts import style
from reports.charts.style import Style
from reports.findings import crowded

MOST_CURVES = 8  # Strategies that one panel can tell apart.

_ROW_PITCH, _MOST_ROWS_HEIGHT = 4.6, 66.0  # Millimetres: the first page has room for so much.
_NUMBERS_WIDTH = 0.058  # Of the figure: what a median's number takes beside its panel.
_MARGIN = 0.25  # Octaves of workers left free on either side of a plot.
_PANELS_BESIDE, _PANEL_HEIGHT = 5, 29.0  # Panels in a row; millimetres.
_PANEL_PLOT, _TITLE_LINE = 20.0, 2.9  # Of that the plot itself, about; a line of its title.
_LONGEST_TITLE = 26  # Characters that fit above a fifth of the width.


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
    handles += [
        style.mark_handle("o", 2.2, 0.6, "one launch"),
        style.mark_handle("|", 7, 1.8, "95 % interval of the median"),
    ]
    below = style.legend_height(handles)
    height = pitch * len(names) + 15 + below
    left = (5 + 1.27 * min(style.LONGEST_NAME, max(map(len, names)))) * style.MILLIMETRE / style.WIDTH
    panel = (0.995 - left) / len(counts)
    with matplotlib.rc_context(style.SETTINGS):
        figure = Figure(figsize=(style.WIDTH, height * style.MILLIMETRE))
        bottom, span = (8 + below) / height, pitch * len(names) / height
        for position, workers in enumerate(counts):
            axes = figure.add_axes((left + position * panel, bottom, panel - _NUMBERS_WIDTH, span))
            places = {name: place for place, name in enumerate(names)}
            shown = (cells[cells["workers"] == workers], launches[launches["workers"] == workers])
            _draw_rates(axes, *shown, looks, places, workers * max(ideals.values(), default=0.0))
            for base, rate in ideals.items():
                color = looks[base].color if base in looks else style.FAINT
                axes.axvline(workers * rate, color=color, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1.5)
            is_crowded = workers in crowded(cells)
            axes.set_title(blocks.workers(int(workers)) + (" \N{DAGGER}" if is_crowded else ""), pad=3)
            axes.set_facecolor("#f5f3f0" if is_crowded else "none")
            axes.set_xlabel("samples per second", fontsize=6.5, labelpad=2)
            axes.set_yticks([])
            if not position:
                axes.set_yticks(
                    range(len(names)), [style.literal(style.shortened(name)) for name in names], fontsize=6.5
                )
                for label, name in zip(axes.get_yticklabels(), names, strict=True):
                    label.set_color(looks[name].color)
                axes.tick_params(axis="y", length=0)
        style.draw_legend(figure, handles)
        return style.svg(figure)


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
        color = style.FAINT if row["oversubscribed"] else style.INK
        axes.annotate(
            *(said, (1.0, place)),
            **{"xycoords": ("axes fraction", "data"), "xytext": (21, 0), "textcoords": "offset points"},
            **{"ha": "right", "va": "center", "fontsize": 6.2, "color": color, "annotation_clip": False},
        )
    axes.set_xlim(0, limit)
    axes.set_ylim(len(places) - 0.5, -0.5)
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.hlines(range(len(places)), 0, limit, color="#e9e7e3", linewidth=0.5, zorder=0.5)
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="x", labelsize=6.2)


def _ideal_handle(base: str, looks: dict[str, Style]) -> Line2D:
    color = looks[base].color if base in looks else style.FAINT
    label = f"ideal: N times {style.literal(base)}"
    return Line2D([], [], color=color, linewidth=0.9, linestyle=(0, (1, 2)), label=label)


def curves(cells: pd.DataFrame, launches: pd.DataFrame, looks: dict[str, Style]) -> bytes:
    """Throughput, speed-up over either base, and efficiency by workers for one regime, with every launch."""
    with matplotlib.rc_context(style.SETTINGS):
        handles = _legend(cells, looks)
        below = style.legend_height(handles)
        height = 121 + below
        figure = Figure(figsize=(style.WIDTH, height * style.MILLIMETRE))
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
        style.draw_legend(figure, handles)
        return style.svg(figure)


def multiples(cells: pd.DataFrame, launches: pd.DataFrame, looks: dict[str, Style]) -> bytes:
    """Throughput by workers for one regime, a small panel for each strategy, with those of all others in grey.

    `cells` and `launches` as in `curves`, for more strategies than one panel can tell apart.
    """
    names = in_order_of_speed(cells)
    rows = math.ceil(len(names) / _PANELS_BESIDE)
    handles = [
        style.mark_handle("o", 2.6, 0.6, "one launch"),
        Line2D([], [], color=style.GREY, linewidth=0.6, label="the others"),
    ]
    handles += [Line2D([], [], color=style.INK, linewidth=0.9, linestyle=(0, (1, 2)), label="ideal: N times its base")]
    below = style.legend_height(handles)
    # A title of more than two lines needs more room than there is between panels.
    lines = max(1 + style.wrapped(name, _LONGEST_TITLE).count("\n") for name in names)
    above = _TITLE_LINE * max(0, lines - 2)
    height = rows * (_PANEL_HEIGHT + above) + 12 + below
    with matplotlib.rc_context(style.SETTINGS):
        figure = Figure(figsize=(style.WIDTH, height * style.MILLIMETRE))
        grid = figure.add_gridspec(
            *(rows, _PANELS_BESIDE),
            **{"left": 0.06, "right": 0.995, "top": 1 - (5 + above) / height, "bottom": (11 + below) / height},
            **{"hspace": 0.42 + above / _PANEL_PLOT, "wspace": 0.1},
        )
        lines = [own[["workers", "samples_per_second"]].to_numpy() for _, own in cells.groupby("strategy")]
        first = None
        for place, name in enumerate(names):
            axes = figure.add_subplot(grid[divmod(place, _PANELS_BESIDE)], sharex=first, sharey=first)
            axes.add_collection(LineCollection(lines, colors=style.GREY, linewidths=0.5, zorder=1))
            own = (cells[cells["strategy"] == name], launches[launches["strategy"] == name])
            _draw_multiple(axes, *own, looks[name])
            axes.set_title(style.wrapped(name, _LONGEST_TITLE), fontsize=6.2, color=looks[name].color, pad=2)
            is_last = place + _PANELS_BESIDE >= len(names)
            axes.tick_params(labelsize=5.8, labelleft=place % _PANELS_BESIDE == 0, labelbottom=is_last)
            if first is None:
                first = axes
                _workers_axis(axes, cells)
                axes.set_yscale("log")
                axes.set_ylim(0.8 * cells["samples_per_second"].min(), 1.3 * _largest_ideal(cells))
                plain_log_axis(axes)
        figure.text(0.06, (3.5 + below) / height, "samples per second of all workers, by workers", fontsize=6.5)
        style.draw_legend(figure, handles)
        return style.svg(figure)


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
    axes.plot(known["workers"], ideal, color=style.INK, linewidth=0.9, linestyle=(0, (1, 2)))
    axes.grid(axis="y")
    axes.set_axisbelow(True)


def _largest_ideal(cells: pd.DataFrame) -> float:
    """The highest point that a panel of `multiples` has to show."""
    ideals = cells["workers"] * cells["base_samples_per_second"]
    return max(cells["samples_per_second"].max(), float(np.nan_to_num(ideals.max())))


def _draw_throughput(axes: Axes, cells: pd.DataFrame, launches: pd.DataFrame, looks: dict[str, Style]) -> None:
    _draw_points(axes, launches, launches["samples_per_second"], looks)
    _draw_medians(axes, cells, cells["samples_per_second"], looks, intervals=True)
    workers = np.array(sorted(cells["workers"].unique()))
    bases = cells.dropna(subset=["base"]).drop_duplicates("base")
    for base, speed in zip(bases["base"], bases["base_samples_per_second"], strict=True):
        color = looks[base].color if base in looks else style.FAINT
        axes.plot(workers, workers * speed, color=color, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1.5)
    _workers_axis(axes, cells)
    axes.set_yscale("log")
    plain_log_axis(axes)


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
    axes.plot(workers, ideal, color=style.INK, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1.5)
    _workers_axis(axes, cells)
    if ratio.notna().sum() == 0:
        axes.text(0.5, 0.4, "the base wasn't measured", transform=axes.transAxes, ha="center", color=style.FAINT)
    if per_worker:
        axes.set_ylim(0, max(1.1, 1.06 * float(np.nan_to_num(points.max()))))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))
    else:
        axes.set_yscale("log")
        plain_log_axis(axes)


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


def plain_log_axis(axes: Axes) -> None:
    """Ticks at 1, 2 and 5 times powers of ten, written out."""
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=30))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    low, high = axes.get_ylim()
    # At least a factor of four, so that two ticks always show and noise doesn't fill the panel.
    if high / low < 4:
        middle = math.sqrt(low * high)
        axes.set_ylim(middle / 2, middle * 2)


def short(value: float) -> str:
    """A number as it stands at a tick: thousands as `1 k`."""
    if value >= 1e6:
        return f"{value / 1e6:g} M"
    return f"{value / 1e3:g} k" if value >= 1000 else f"{value:g}"


def _legend(cells: pd.DataFrame, looks: dict[str, Style]) -> list[Line2D]:
    handles = [style.line_handle(style.wrapped(name), looks[name]) for name in sorted(cells["strategy"].unique())]
    handles.append(
        Line2D([], [], color=style.INK, linewidth=0.9, linestyle=(0, (1, 2)), label="ideal: N times the base")
    )
    if cells["oversubscribed"].any():
        handles.append(style.mark_handle("o", 3.4, 0.6, "\N{DAGGER} more threads than cores"))
    if cells["low_seconds"].notna().any():
        handles.append(style.mark_handle("|", 7, 1.8, "95 % interval of the median"))
    return handles
