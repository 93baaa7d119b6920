"""Figures of how fast strategies are: their rates, and their speed-up and efficiency over the number of workers."""

import math
from collections.abc import Mapping

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

_ROW_PITCH, _MOST_ROWS_HEIGHT = 11.0, 72.0  # Millimetres: the first page has room for so much.
_LETTER = 1.27  # The width of a letter of a row's name, in millimetres.
_LONGEST_NAME, _LONGEST_BASE = 26, 18  # Characters of a row's name on a narrow page, and of a base in the legend.


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
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: layout.short(value)))
        axes.set_yticks(range(len(rows)), [style.literal(blocks.shortened(name, longest)) for name in names])
        for label, (name, _) in zip(axes.get_yticklabels(), rows, strict=True):
            label.set(color=looks[name].color, fontsize=6.8)
            svg.button(label, name)
        axes.tick_params(axis="y", length=0)
        axes.tick_params(axis="x", labelsize=6.2)
        axes.spines["left"].set_visible(False)
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


def in_order_of_speed(cells: pd.DataFrame) -> list[str]:
    """The strategies of one regime by their rate with the most workers that have a core each, then with fewer.

    A strategy that wasn't measured with so many stands below all that were.
    """
    over = oversubscribed_worlds(cells)
    order = sorted(cells["workers"].unique(), key=lambda count: (count in over, -count))
    rates = cells.pivot_table(index="strategy", columns="workers", values="samples_per_second")[order]
    return rates.sort_values(order, ascending=False, na_position="last").index.tolist()


def scaling(
    cells: pd.DataFrame,
    launches: pd.DataFrame,
    looks: Mapping[str, style.Style],
    height: float | None = None,
    width: float = style.WIDTH,
) -> bytes:
    """Speed-up over the number of workers, and efficiency below it: a panel of each for every strategy.

    `cells` and `launches` are rows of one regime with exchange whose base was measured. The others' lines are grey.
    """
    over, names = oversubscribed_worlds(cells), in_order_of_speed(cells)
    base = cells.drop_duplicates("strategy").set_index("strategy")["base_samples_per_second"]
    points, medians, lines = [], [], []
    for measure in ("speed-up", "efficiency"):
        marks, own = (
            rows.assign(measure=measure, panel=rows["strategy"], series=rows["strategy"], x=rows["workers"])
            for rows in (launches, cells)
        )
        many = 1 if measure == "speed-up" else marks["workers"]
        points.append(marks.assign(value=marks["samples_per_second"] / marks["strategy"].map(base) / many))
        own["value"] = own["speed_up"] if measure == "speed-up" else own["efficiency"]
        total = own["value"] * own["seconds"]
        medians.append(own.assign(low=total / own["high_seconds"], high=total / own["low_seconds"]))
        ordered = {name: own[own["strategy"] == name].sort_values("x") for name in names}
        # NaN ends the part of each strategy.
        x, values = ([each for rows in ordered.values() for each in (*rows[name], math.nan)] for name in ("x", "value"))
        for name, rows in ordered.items():
            about = {"measure": measure, "panel": name}
            ideal = rows["x"] if measure == "speed-up" else [1] * len(rows)
            lines += [
                Line(**about, x=x, values=values, color=style.GREY, dashes="-", width=0.5, label="the others"),
                Line(**about, x=rows["x"], values=ideal, label="ideal: N times its base"),
            ]
    plot = Plot(
        launches=pd.concat(points),
        medians=pd.concat(medians).sort_values("series", key=lambda own: own.map(names.index), kind="stable"),
        lines=lines,
        x_label="workers",
        ticks={count: blocks.world(count, count in over) for count in cells["workers"].unique()},
        from_zero="efficiency",
        shaded_from=min(over, default=None),
        height=height,
    )
    return curves(plot, looks, width)
