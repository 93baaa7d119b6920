"""Figures of how fast strategies are: their rates, and their speed-up and efficiency over the number of workers.

Each function returns one SVG, the same bytes for the same input.
"""

import math
from collections.abc import Callable, Mapping, Sequence

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
    launches, note = layout.thinned(launches, ["strategy", "workers"], "bar", "samples_per_second")
    most, rows = cells["workers"].max(), [*cells[["strategy", "workers"]].itertuples(index=False, name=None)]
    measured = cells.dropna(subset=["base"]).sort_values("base_samples_per_second")
    bases = dict(zip(measured["base"], measured["base_samples_per_second"], strict=True))
    longest = blocks.LONGEST_NAME if width > style.NARROW else _LONGEST_NAME
    names = [name if workers == most else f"{name}, {blocks.workers(workers)}" for name, workers in rows]
    handles: list[layout.Handle] = []
    for base in bases:
        label = style.literal(blocks.shortened(base, _LONGEST_BASE))
        color = style.color_of(base, looks)
        handles.append(Line2D([], [], color=color, linewidth=0.9, linestyle=DOTS, label=f"{most} times {label}"))
    handles.append(layout.mark_handle("o", 2.2, 0.6, "one launch"))
    handles += layout.mark_handles(intervals=cells["low_seconds"].notna().any(), oversubscribed=False)
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
            note=note,
        )
        svg.panel(axes, "samples per second")
        axes.set_xlabel("samples per second", fontsize=6.5, labelpad=2)
        _draw_rates(axes, cells, launches, looks, rows)
        for base, rate in bases.items():
            line = axes.axvline(most * rate, color=style.color_of(base, looks), linewidth=0.9, linestyle=DOTS)
            svg.mark(line, [base], {"base": base, f"{most} times its samples/s": f"{most * rate:,.0f}"})
        drawn = [*launches["samples_per_second"], *(most * rate for rate in bases.values())]
        number = 4 + _LETTER * max(len(f"{rate:,.0f}") for rate in cells["samples_per_second"])
        # Room for the number of the longest bar.
        axes.set_xlim(0, max(drawn) / (1 - number / (width - left - 2)))
        axes.set_yticks(range(len(rows)), [style.literal(blocks.shortened(name, longest)) for name in names])
        for label, (name, _) in zip(axes.get_yticklabels(), rows, strict=True):
            label.set(color=looks[name].color, fontsize=6.8)
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
    rows: Sequence[tuple[str, int]],
) -> None:
    """The bars, launches, intervals and numbers of the headline, from the top; those of one worker are pale."""
    for key, group in launches.groupby(["strategy", "workers"]):
        points = axes.plot(group["samples_per_second"], [rows.index(key)] * len(group), "o", color=style.INK)
        points[0].set(markersize=2.2, alpha=0.4, markeredgewidth=0, zorder=3)
        svg.mark(points[0], [key[0]], *map(_tip_of_launch, group.to_dict("records")))
    furthest = launches.groupby(["strategy", "workers"])["samples_per_second"].max()
    for cell in cells.to_dict("records"):
        key = (cell["strategy"], cell["workers"])
        look, place, tip, rate = looks[key[0]], rows.index(key), _tip_of_median(cell), cell["samples_per_second"]
        pale = 0.35 if cell["workers"] < cells["workers"].max() else 0.8
        [bar] = axes.barh(place, rate, height=0.62, color=look.color, alpha=pale, zorder=2)
        svg.mark(bar, [key[0]], tip)
        end = max(rate, furthest.get(key, rate))
        if not math.isnan(cell["low_seconds"]):
            interval = axes.hlines(place, *_interval(cell), color=style.INK, linewidth=1.4, zorder=3)
            svg.mark(interval, [key[0]], tip)
            end = max(end, _interval(cell)[1])
        where = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
        number = axes.annotate(
            f"{rate:,.0f}{DAGGER * cell['oversubscribed']}", (end, place), fontsize=6.5, bbox=style.PLATE, **where
        )
        svg.mark(number, [key[0]])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: layout.short(value)))
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="x", labelsize=6.2)


def scaling(
    cells: pd.DataFrame,
    launches: pd.DataFrame,
    looks: Mapping[str, style.Style],
    height: float | None = None,
    width: float = style.WIDTH,
) -> bytes:
    """Speed-up over the number of workers, and efficiency below it: a panel of each for every strategy.

    `cells` and `launches` are rows of one regime with exchange whose base was measured. The others' lines are grey.
    Worlds with more threads than cores are on grey.
    """
    over = oversubscribed_worlds(cells)
    base = cells.drop_duplicates("strategy").set_index("strategy")["base_samples_per_second"]
    launches = launches.assign(speed_up=launches["samples_per_second"] / launches["strategy"].map(base))
    launches["efficiency"] = launches["speed_up"] / launches["workers"]
    ratio = cells["speed_up"] * cells["seconds"]
    cells = cells.assign(low_speed_up=ratio / cells["high_seconds"], high_speed_up=ratio / cells["low_seconds"])
    names = in_order_of_speed(cells)
    points, medians, lines = [], [], []
    for measure, column in (("speed-up", "speed_up"), ("efficiency", "efficiency")):
        points.append(_marks(launches, _tip_of_launch).assign(measure=measure, value=launches[column]))
        own = _marks(cells, _tip_of_median).assign(measure=measure, value=cells[column])
        share = 1 if column == "speed_up" else cells["workers"]
        medians.append(own.assign(low=cells["low_speed_up"] / share, high=cells["high_speed_up"] / share))
        ordered = [own[own["strategy"] == name].sort_values("x") for name in names]
        # NaN ends the part of each strategy.
        x, values = ([each for rows in ordered for each in (*rows[name], math.nan)] for name in ("x", "value"))
        for rows in ordered:
            about = {"measure": measure, "panel": rows["strategy"].iloc[0]}
            ideal = rows["x"] if column == "speed_up" else [1] * len(rows)
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
        from_zero=["efficiency"],
        shaded_from=min(over, default=None),
        height=height,
    )
    return curves(plot, looks, width)


def _marks(rows: pd.DataFrame, tip: Callable[[Mapping[str, object]], dict[str, object]]) -> pd.DataFrame:
    """Launches or cells as marks of a plot, each in the panel of its strategy."""
    tips = [tip(row) for row in rows.to_dict("records")]
    return rows.assign(panel=rows["strategy"], series=rows["strategy"], x=rows["workers"], tip=tips)
