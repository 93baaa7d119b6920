"""Figures of how fast strategies are: the rates of one regime by strategy, and over the number of workers.

Each function returns one SVG, the same bytes for the same input.
"""

import math
from collections.abc import Mapping, Sequence

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from common.observations import numbers
from reports import blocks
from reports.blocks import DAGGER
from reports.charts import layout, style, svg
from reports.charts.curves import Line, Plot, curves
from reports.charts.layout import DOTS
from reports.tables.summaries import oversubscribed_worlds

_ROW_PITCH, _MOST_ROWS_HEIGHT = 4.6, 66.0  # Millimetres: the first page has room for so much.
_LETTER = 1.27  # The width of a letter of a row's name, in millimetres.
_LONGEST_NAME = 26  # Characters of a row's name where panels stand below one another.


def headline(
    cells: pd.DataFrame, launches: pd.DataFrame, looks: Mapping[str, style.Style], width: float = style.WIDTH
) -> bytes:
    """Samples per second of one regime: a row for each strategy, a panel for each number of workers.

    `cells` and `launches` are the rows of `summaries.cells` and `summaries.launches` of that regime, with exchange.
    Every launch is a faint mark, the median a large one with its interval and its number. Each panel ends at N times
    the fastest base, whose ideal is a dotted line, so the distance to the right edge is what distribution costs.
    """
    keys = ["strategy", "workers"]
    launches, note = layout.thinned(launches, keys, "strategy and number of workers", "samples_per_second")
    names, counts = in_order_of_speed(cells), sorted(cells["workers"].unique().tolist())
    is_wide, measured = width > style.NARROW, cells.dropna(subset=["base"]).sort_values("base_samples_per_second")
    bases = dict(zip(measured["base"], measured["base_samples_per_second"], strict=True))
    longest = style.LONGEST_NAME if is_wide else _LONGEST_NAME
    digits = max(len(f"{rate:,.0f}") for rate in cells["samples_per_second"])
    handles: list[layout.Handle] = []
    for base in bases:
        label = f"ideal: N times {style.literal(base)}"
        color = style.color_of(base, looks)
        handles.append(Line2D([], [], color=color, linewidth=0.9, linestyle=DOTS, label=label))
    handles.append(layout.mark_handle("o", 2.2, 0.6, "one launch"))
    handles += layout.mark_handles(intervals=cells["low_seconds"].notna().any(), oversubscribed=False)
    with matplotlib.rc_context(style.SETTINGS):
        figure, panels = layout.panels(
            len(counts),
            [len(names) * min(_ROW_PITCH, _MOST_ROWS_HEIGHT / len(names))] * (1 if is_wide else len(counts)),
            left=5 + _LETTER * min(longest, max(map(len, names))),
            between=1.5,
            right=3 + 1.25 * digits,
            above=5.5,
            grid="",
            handles=handles,
            width=width,
            note=note,
        )
        for axes, workers in zip(panels, counts, strict=True):
            is_first = axes is panels[0] or not is_wide
            is_oversubscribed = workers in oversubscribed_worlds(cells)
            title = blocks.workers(workers) + (f" {DAGGER}" if is_oversubscribed else "")
            axes.set_title(title, pad=3)
            svg.panel(axes, f"{title}: samples per second")
            axes.set_facecolor(style.GROUND if is_oversubscribed else "none")
            axes.set_xlabel("samples per second", fontsize=6.5, labelpad=2)
            rows = (cells[cells["workers"] == workers], launches[launches["workers"] == workers])
            _draw_rates(axes, *rows, looks, names, workers * max(bases.values(), default=0.0))
            for base, rate in bases.items():
                line = axes.axvline(workers * rate, color=style.color_of(base, looks), linewidth=0.9, linestyle=DOTS)
                svg.mark(line, [base], {"base": base, f"{workers} times its samples/s": f"{workers * rate:,.0f}"})
            axes.set_yticks(range(len(names)) if is_first else [])
            if is_first:
                axes.set_yticklabels([style.literal(style.shortened(name, longest)) for name in names], fontsize=6.5)
                for label, name in zip(axes.get_yticklabels(), names, strict=True):
                    label.set_color(looks[name].color)
                    svg.button(label, name)
            axes.tick_params(axis="y", length=0)
        return svg.svg(figure)


def in_order_of_speed(cells: pd.DataFrame) -> list[str]:
    """The strategies of one regime by their rate with the most workers that have a core each, then with fewer.

    A strategy that wasn't measured with so many stands below all that were.
    """
    counts = sorted(cells["workers"].unique(), reverse=True)
    over = set(oversubscribed_worlds(cells))
    order = [count for count in counts if count not in over] + [count for count in counts if count in over]
    rates = cells.pivot_table(index="strategy", columns="workers", values="samples_per_second")[order]
    return rates.sort_values([*rates.columns], ascending=False, na_position="last").index.tolist()


def _interval(cell: Mapping[str, object]) -> tuple[float, float]:
    """The samples per second between which a cell's median lies; NaN of too few launches."""
    return cell["global_batch"] / cell["high_seconds"], cell["global_batch"] / cell["low_seconds"]


def _about(row: Mapping[str, object]) -> dict[str, object]:
    workers = blocks.world(row["workers"], bool(row["oversubscribed"]))
    return {"strategy": row["strategy"], "workers": workers, "ms per step": blocks.milliseconds(row["seconds"])}


def _tip_of_launch(launch: Mapping[str, object]) -> dict[str, object]:
    return _about(launch) | {"launch (n = 1)": launch["launch"], "samples/s": f"{launch['samples_per_second']:,.0f}"}


def _tip_of_median(cell: Mapping[str, object]) -> dict[str, object]:
    low, high = _interval(cell)
    return _about(cell) | {
        "samples/s, median": f"{cell['samples_per_second']:,.0f}",
        "95 % interval": "none: too few launches" if math.isnan(low) else f"{low:,.0f} to {high:,.0f}",
        "speed-up": numbers.ratio(cell["speed_up"]),
        "efficiency": numbers.percent(cell["efficiency"]),
        "over own 1": numbers.ratio(cell["own_speed_up"]),
        "launches (n)": cell["n"],
    }


def _draw_rates(
    axes: Axes,
    cells: pd.DataFrame,
    launches: pd.DataFrame,
    looks: Mapping[str, style.Style],
    names: Sequence[str],
    ideal: float,
) -> None:
    """One panel of the headline: the launches, intervals, medians and numbers of one number of workers."""
    limit = 1.03 * max(ideal, launches["samples_per_second"].max())
    axes.hlines(range(len(names)), 0, limit, color=style.RULE, linewidth=0.5, zorder=0.5)
    for name, group in launches.groupby("strategy"):
        points = axes.plot(group["samples_per_second"], [names.index(name)] * len(group), "o", color=looks[name].color)
        points[0].set(markersize=2.4, alpha=0.3, markeredgewidth=0)
        svg.mark(points[0], [name], *map(_tip_of_launch, group.to_dict("records")))
    for cell in cells.to_dict("records"):
        look, place, tip = looks[cell["strategy"]], names.index(cell["strategy"]), _tip_of_median(cell)
        if not math.isnan(cell["low_seconds"]):
            interval = axes.hlines(place, *_interval(cell), color=look.color, linewidth=2.2, alpha=0.6)
            svg.mark(interval, [cell["strategy"]], tip)
        [median] = axes.plot(cell["samples_per_second"], place, marker=look.marker, markersize=4.6, color=look.color)
        median.set(markerfacecolor=style.PAPER if cell["oversubscribed"] else look.color, markeredgewidth=0.8)
        svg.mark(median, [cell["strategy"]], tip)
        number = axes.annotate(
            f"{cell['samples_per_second']:,.0f}",
            (1.0, place),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=6.2,
            color=style.FAINT if cell["oversubscribed"] else style.INK,
            annotation_clip=False,
        )
        svg.mark(number, [cell["strategy"]])
    axes.set_xlim(0, limit)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: layout.short(value)))
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="x", labelsize=6.2)


def by_workers(
    cells: pd.DataFrame, launches: pd.DataFrame, looks: Mapping[str, style.Style], width: float = style.WIDTH
) -> bytes:
    """Draw the rates of one regime over the workers: a panel for each strategy, with those of all others in grey.

    `cells` and `launches` as in `headline`.
    """
    measure, over = "samples per second", oversubscribed_worlds(cells)
    points, medians = (
        rows.assign(
            measure=measure,
            panel=rows["strategy"],
            series=rows["strategy"],
            x=rows["workers"],
            value=rows["samples_per_second"],
            tip=[tip(row) for row in rows.to_dict("records")],
        )
        for rows, tip in ((launches, _tip_of_launch), (cells, _tip_of_median))
    )
    batch = medians["global_batch"]
    medians = medians.assign(low=batch / medians["high_seconds"], high=batch / medians["low_seconds"])
    ordered = [medians[medians["strategy"] == name].sort_values("x") for name in in_order_of_speed(cells)]
    # NaN ends the part of each strategy.
    x, values = ([each for rows in ordered for each in (*rows[column], math.nan)] for column in ("x", "value"))
    lines = []
    for rows in ordered:
        about = {"measure": measure, "panel": rows["strategy"].iloc[0]}
        ideal = rows["workers"] * rows["base_samples_per_second"]
        lines += [
            Line(**about, x=x, values=values, color=style.GREY, dashes="-", width=0.5, label="the others"),
            Line(**about, x=rows["x"], values=ideal, label="ideal: N times its base"),
        ]
    ticks = {count: blocks.world(count, count in over) for count in cells["workers"].unique()}
    plot = Plot(launches=points, medians=pd.concat(ordered), lines=lines, x_label="workers", ticks=ticks)
    return curves(plot, looks, width)
