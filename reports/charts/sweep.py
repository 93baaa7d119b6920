"""The figure of a sweep: what the bandwidth between hosts makes of a step, and of the samples per second."""

import math
from collections.abc import Mapping

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from reports import blocks
from reports.charts import layout, style, svg
from reports.charts.layout import DOTS
from reports.charts.style import Style

_SECONDS = ("seconds", "low_seconds", "high_seconds", "base_seconds", "bound_seconds")
_MEASURES = {"milliseconds": "ms per step", "samples_per_second": "samples per second"}
"""What a row of panels shows, by the column of its medians."""

_DASHES = (0, (4, 1.6))
"""Of the line of a strategy with other maths."""

_PANEL_HEIGHT = 44.0  # Millimetres.


def sweep(cells: pd.DataFrame, launches: pd.DataFrame, looks: Mapping[str, Style], width: float = style.WIDTH) -> bytes:
    """A step's time, and below it the samples per second, over the bandwidth: a panel for each number of hosts.

    `cells` are rows of `bandwidths.table` of one regime, with one number of workers for as many hosts, `launches` those
    of `summaries` that they are the medians of, with their `own` and `bandwidth_bits_per_second`. Both axes are
    logarithmic. Each base alone is a level line, the ring's lower bound a dotted one; other maths is dashed.
    """
    cells = cells.assign(**{name.replace("seconds", "milliseconds"): 1000 * cells[name] for name in _SECONDS})
    launches = launches.assign(milliseconds=1000 * launches["seconds"])
    drawn, note = layout.thinned(launches, ["strategy"], "strategy and link")
    groups, is_wide = _groups(cells), width > style.NARROW
    heights = [_PANEL_HEIGHT] * (2 if is_wide else 2 * len(groups))
    megabits = {each / 1e6: layout.short(float(f"{each / 1e6:.2g}")) for each in cells["bandwidth_bits_per_second"]}
    with matplotlib.rc_context(style.SETTINGS):
        handles = _legend(cells, looks)
        figure, panels = layout.panels(
            2 * len(groups), heights, left=13, between=7, under=10, handles=handles, note=note, width=width
        )
        for row, (measure, said) in enumerate(_MEASURES.items()):
            shown = [cells[measure], launches[measure], cells[f"base_{measure}"]]
            shown += [cells["bound_milliseconds"]] if measure == "milliseconds" else []
            limits = 0.85 * pd.concat(shown).min(), 1.18 * pd.concat(shown).max()
            for place, (title, group) in enumerate(groups.items()):
                axes = panels[row * len(groups) + place]
                for own, of_strategy in group.groupby("own"):
                    _draw_strategy(axes, own, of_strategy, drawn, measure, looks[own], title)
                _draw_bounds(axes, group, measure, looks)
                axes.set_title(title if place and is_wide else f"{title}: {said}")
                svg.panel(axes, f"{title}: {said}")
                axes.set_yscale("log")
                axes.set_ylim(*limits)
                layout.plain_log_axis(axes)
                layout.measured_places(axes, megabits, "Mbit/s from host to host")
                axes.tick_params(labelleft=not (place and is_wide))
        return svg.svg(figure)


def _groups(cells: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The cells of each panel by its title, such as `2 hosts`."""
    groups = {}
    for (hosts, delay), shown in cells.groupby(["hosts", "delay_seconds"]):
        each = int(shown["workers"].iloc[0]) // int(hosts)
        title = f"{hosts} hosts" + (f", {each} workers each" if each > 1 else "")
        groups[title + (f", {1000 * delay:g} ms delay" if delay else "")] = shown
    return groups


def _bases(cells: pd.DataFrame) -> pd.DataFrame:
    """One row for each base that was measured, by its name, with what it does alone (`base_` and the measure)."""
    return cells.dropna(subset=["base"]).sort_values("base").drop_duplicates("base")


def _about(row: Mapping[str, object], hosts: str) -> dict[str, object]:
    return {
        "strategy": row["own"],
        "hosts": hosts,
        "Mbit/s": f"{row['bandwidth_bits_per_second'] / 1e6:,.4g}",
        "ms per step": blocks.milliseconds(row["seconds"]),
        "samples/s": f"{row['samples_per_second']:,.0f}",
    }


def _draw_strategy(
    axes: Axes, own: str, cells: pd.DataFrame, launches: pd.DataFrame, measure: str, look: Style, hosts: str
) -> None:
    """The medians of a strategy over the bandwidths of its links, a little aside so that none hides another."""
    points = []
    for cell in cells.sort_values("bandwidth_bits_per_second").to_dict("records"):
        here = launches[launches["strategy"] == cell["strategy"]]
        low, high = cell["low_milliseconds"], cell["high_milliseconds"]
        told = "none: too few launches" if math.isnan(low) else f"{blocks.interval(low, high, blocks.number)} ms"
        tip = {"95 % interval": told, "times one host's": blocks.ratio(cell["ratio"]), "launches (n)": cell["n"]}
        tips = [_about(row, hosts) | {"launch (n = 1)": row["launch"]} for row in here.to_dict("records")]
        if measure != "milliseconds":
            low, high = (1000 * cell["global_batch"] / end for end in (high, low))
        points.append(
            layout.Point(
                place=cell["bandwidth_bits_per_second"] / 1e6 * math.exp(0.5 * look.shift),
                launches=here[measure].tolist(),
                median=cell[measure],
                interval=None if math.isnan(low) else (low, high),
                oversubscribed=cell["oversubscribed"],
                tip=_about(cell, hosts) | tip,
                tips_of_launches=tips,
            )
        )
    layout.draw_points(axes, own, points, look, dashes="-" if cells["same_maths"].all() else _DASHES)


def _draw_bounds(axes: Axes, cells: pd.DataFrame, measure: str, looks: Mapping[str, Style]) -> None:
    """One host alone, and the least time that the link needs."""
    for row in _bases(cells).to_dict("records"):
        line = axes.axhline(row[f"base_{measure}"], color=style.color_of(row["base"], looks), linewidth=0.9, zorder=1.5)
        tip = {"one host alone": row["base"], "ms per step": blocks.number(row["base_milliseconds"])}
        svg.mark(line, [row["base"]], tip | {"samples/s": f"{row['base_samples_per_second']:,.0f}"})
    if measure == "milliseconds":
        bound = cells.drop_duplicates("bandwidth_bits_per_second").sort_values("bandwidth_bits_per_second")
        x, y = bound["bandwidth_bits_per_second"] / 1e6, bound["bound_milliseconds"]
        axes.plot(x, y, color=style.INK, linewidth=1.0, linestyle=DOTS, zorder=2.8)


def _legend(cells: pd.DataFrame, looks: Mapping[str, Style]) -> list[layout.Handle]:
    handles: list[layout.Handle] = []
    for own, group in cells.groupby("own"):
        same, look = group["same_maths"].all(), looks[own]
        handles.append(layout.line_handle(own, Style(look.color, look.marker, "-" if same else _DASHES, look.shift)))
    for base in _bases(cells)["base"]:
        name = f"one host alone: {style.literal(base)}"
        handles.append(Line2D([], [], color=style.color_of(base, looks), linewidth=0.9, label=name, gid=base))
    handles.append(layout.dotted_handle("the ring's lower bound on the link"))
    handles += layout.mark_handles(cells["low_seconds"].notna().any(), cells["oversubscribed"].any())
    return handles
