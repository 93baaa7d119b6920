"""The figure of a sweep: what the bandwidth between hosts makes of a step, and of the samples per second."""

import math
from collections.abc import Mapping, Sequence

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from reports.charts import speed, style
from reports.charts.style import Style

MEASURES = {"seconds": "ms per step", "samples_per_second": "samples per second"}
"""What a row of panels shows, by the column of its medians."""

DASHES = (0, (4, 1.6))
"""Of the line of a strategy with other maths."""

DOTS = (0, (1, 2))
_PANEL_HEIGHT = 52.0  # Millimetres.


def sweep(cells: pd.DataFrame, launches: pd.DataFrame, looks: Mapping[str, Style]) -> bytes:
    """A step's time, and below it the samples per second, over the bandwidth: a panel for each number of hosts.

    `cells` are rows of `bandwidths.table` of one regime, with one number of workers for as many hosts, `launches` those
    of `summaries` that they are the medians of, with their `own` and `bandwidth_bits_per_second`. Both axes are
    logarithmic. Each base alone is a level line, the ring's lower bound a dotted one; other maths is dashed.
    """
    handles = _legend(cells, looks)
    below = style.legend_height(handles)
    groups = panels(cells)
    height = 2 * _PANEL_HEIGHT + 15 + below
    with matplotlib.rc_context(style.SETTINGS):
        figure = Figure(figsize=(style.WIDTH, height * style.MILLIMETRE))
        grid = figure.add_gridspec(
            *(2, len(groups)),
            **{"left": 0.075, "right": 0.99, "top": 1 - 5 / height, "bottom": (10 + below) / height},
            **{"hspace": 0.26, "wspace": 0.14},
        )
        for row, (measure, said) in enumerate(MEASURES.items()):
            ends_of_axis = scaled(limits(cells, launches, measure), measure)
            for place, (title, shown) in enumerate(groups.items()):
                axes = figure.add_subplot(grid[row, place])
                own = launches[launches["strategy"].isin(shown["strategy"])]
                _draw_launches(axes, own, measure, looks)
                _draw_medians(axes, shown, measure, looks)
                _draw_bounds(axes, shown, measure, looks)
                axes.set_title(f"{title}: {said}" if not place else title)
                axes.set_yscale("log")
                axes.set_ylim(*ends_of_axis)
                speed.plain_log_axis(axes)
                _bandwidth_axis(axes, cells)
                axes.tick_params(labelleft=place == 0, labelbottom=row == 1)
                if row == 1:
                    axes.set_xlabel("Mbit/s from host to host")
        style.draw_legend(figure, handles)
        return style.svg(figure)


def panels(cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The cells of each panel by its title, such as `2 hosts`."""
    groups = {}
    for (hosts, delay), shown in cells.groupby(["hosts", "delay_seconds"]):
        each = int(shown["workers"].iloc[0]) // int(hosts)
        title = f"{hosts} hosts" + (f", {each} workers each" if each > 1 else "")
        groups[title + (f", {1000 * delay:g} ms delay" if delay else "")] = shown
    return groups


def bases(cells: pd.DataFrame) -> pd.DataFrame:
    """One row for each base that was measured, by its name, with what it does alone (`base_` and the measure)."""
    known = cells.dropna(subset=["base"]).sort_values("base")
    return known.drop_duplicates("base")[["base", "base_seconds", "base_samples_per_second"]]


def limits(cells: pd.DataFrame, launches: pd.DataFrame, measure: str) -> pd.Series:
    """The ends of the axis of a measure that all panels share, a little beyond all that they show."""
    shown = [cells[measure], launches[measure], cells[f"base_{measure}"]]
    shown += [cells["bound_seconds"]] if measure == "seconds" else []
    values = pd.concat(shown).dropna()
    return pd.Series([0.85 * values.min(), 1.18 * values.max()])


def in_words(bits_per_second: float) -> str:
    """A bandwidth in Mbit/s as it stands at a tick."""
    return speed.short(float(f"{bits_per_second / 1e6:.2g}"))


def intervals(cells: pd.DataFrame, measure: str) -> tuple[pd.Series, pd.Series]:
    """The ends of the interval of each cell's median."""
    low, high = cells["low_seconds"], cells["high_seconds"]
    return (low, high) if measure == "seconds" else (cells["global_batch"] / high, cells["global_batch"] / low)


def scaled(values: pd.Series, measure: str) -> pd.Series:
    """As it is drawn: times in milliseconds."""
    return 1000 * values if measure == "seconds" else values


def _draw_launches(axes: Axes, launches: pd.DataFrame, measure: str, looks: Mapping[str, Style]) -> None:
    """Every launch, faint, hollow where there were more threads than cores."""
    for (own, crowded), group in launches.groupby(["own", "oversubscribed"]):
        look = looks[own]
        axes.plot(
            *(_shifted(group, look), scaled(group[measure], measure)),
            **{"linestyle": "none", "marker": "o", "markersize": 2.2, "markeredgewidth": 0.4, "alpha": 0.35},
            **{"color": look.color, "markerfacecolor": "none" if crowded else look.color},
        )


def _draw_medians(axes: Axes, cells: pd.DataFrame, measure: str, looks: Mapping[str, Style]) -> None:
    """A line through the medians of each strategy, with their intervals."""
    for own, group in cells.sort_values("bandwidth_bits_per_second").groupby("own"):
        look, x = looks[own], _shifted(group, looks[own])
        dashes = "-" if group["same_maths"].all() else DASHES
        axes.plot(x, scaled(group[measure], measure), color=look.color, linestyle=dashes, zorder=2)
        for crowded, part in group.groupby("oversubscribed"):
            axes.plot(
                *(_shifted(part, look), scaled(part[measure], measure)),
                **{"linestyle": "none", "marker": look.marker, "markersize": 3.8, "markeredgewidth": 0.8, "zorder": 3},
                **{"color": look.color, "markerfacecolor": "white" if crowded else look.color},
            )
        low, high = (scaled(end, measure) for end in intervals(group, measure))
        axes.vlines(x, low, high, color=look.color, linewidth=1.8, alpha=0.6, zorder=2.5)


def _draw_bounds(axes: Axes, cells: pd.DataFrame, measure: str, looks: Mapping[str, Style]) -> None:
    """One host alone, and the least time that the link needs."""
    for row in bases(cells).to_dict("records"):
        level = row[f"base_{measure}"] * (1000 if measure == "seconds" else 1)
        axes.axhline(level, color=_base_color(row["base"], looks), linewidth=0.9, zorder=1.5)
    if measure == "seconds":
        bound = cells.drop_duplicates("bandwidth_bits_per_second").sort_values("bandwidth_bits_per_second")
        x, y = bound["bandwidth_bits_per_second"] / 1e6, 1000 * bound["bound_seconds"]
        axes.plot(x, y, color=style.INK, linewidth=1.0, linestyle=DOTS, zorder=2.8)


def _bandwidth_axis(axes: Axes, cells: pd.DataFrame) -> None:
    """The bandwidths that were measured, each at its place on a logarithmic axis."""
    bandwidths = sorted(cells["bandwidth_bits_per_second"].unique())
    axes.set_xscale("log")
    axes.set_xticks([each / 1e6 for each in bandwidths], [in_words(each) for each in bandwidths], fontsize=6.2)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(*ends(bandwidths))
    axes.grid(axis="y")
    axes.set_axisbelow(True)


def ends(bandwidths: Sequence[float]) -> tuple[float, float]:
    """The ends of the axis of these bandwidths, bits per second, in Mbit/s: with some room on either side."""
    margin = (bandwidths[-1] / bandwidths[0]) ** 0.05
    return bandwidths[0] / 1e6 / margin, bandwidths[-1] / 1e6 * margin


def shift(look: Style) -> float:
    """By which factor the marks of a strategy are drawn aside, so that those on one another all stay visible."""
    return math.exp(0.5 * look.shift)


def _shifted(rows: pd.DataFrame, look: Style) -> pd.Series:
    return rows["bandwidth_bits_per_second"] / 1e6 * shift(look)


def _base_color(base: str, looks: Mapping[str, Style]) -> str:
    return looks[base].color if base in looks else style.FAINT


def _legend(cells: pd.DataFrame, looks: Mapping[str, Style]) -> list[Line2D]:
    handles = []
    for own, group in cells.groupby("own"):
        same, look = group["same_maths"].all(), looks[own]
        drawn = Style(look.color, look.marker, "-" if same else DASHES, look.shift)
        handles.append(style.line_handle(style.wrapped(own), drawn))
    for base in bases(cells)["base"]:
        name = f"one host alone: {style.literal(base)}"
        handles.append(Line2D([], [], color=_base_color(base, looks), linewidth=0.9, label=name))
    handles.append(
        Line2D([], [], color=style.INK, linewidth=1.0, linestyle=DOTS, label="the ring's lower bound on the link")
    )
    if cells["oversubscribed"].any():
        handles.append(style.mark_handle("o", 3.4, 0.6, "more threads than cores"))
    if cells["low_seconds"].notna().any():
        handles.append(style.mark_handle("|", 7, 1.8, "95 % interval of the median"))
    return handles
