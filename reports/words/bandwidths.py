"""From which bandwidth on distributing pays: a figure and a table for each sweep."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pandas as pd

from common.observations import numbers
from common.records.header import PAYLOAD_BYTES, WIRE_BYTES
from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks
from reports.charts import layout, style
from reports.charts.curves import Line, Plot, curves
from reports.tables import summaries
from reports.tables.bandwidths import paying, table
from reports.tables.material import Material

FIGURE = "sweep"
"""The name of the figure, which README shows as well."""

_TIME, _RATE = "ms per step", "samples per second"
_DASHES = (0, (4, 1.6))

_ABOUT = (
    "The same step over links of several bandwidths. A step can't be shorter than the link needs for its exchange: by "
    f"a ring of N workers, 2 (N {numbers.MINUS} 1) / N times the bytes of the gradients leave each host (Patarasuk & "
    f"Yuan, 2009, equation 1), and {PAYLOAD_BYTES} of them take {WIRE_BYTES} on Ethernet. One host alone is the "
    "undistributed base, for the rows of one worker. Distributing pays by its own interval where the whole interval of "
    "the ratio to its rate, over launches of the same round, is above 1, there and over every faster link."
)


def section(material: Material) -> list[blocks.Block]:
    """The figure and the table of each regime that has a sweep."""
    launches, records = material.launches, material.results.records
    found = table(material.configurations, launches, records)
    if found.empty:
        return []
    # One style for each strategy with its options, whatever its hosts, and for each base.
    shown = launches[launches["strategy"].isin({*found["strategy"], *found["base"].dropna()})]
    names = zip(summaries.without_hosts(shown), shown["launch"], strict=True)
    looks = style.styles({name: records[launch].colors for name, launch in names})
    swept = {regime: name for regime, name in material.shown.items() if (found["regime"] == regime).any()}
    parts: list[blocks.Block] = []
    for regime, name in swept.items():
        rows = found[found["regime"] == regime]
        title = "From which bandwidth on it pays" + (f": {name}" if len(swept) > 1 else "")
        parts += [blocks.heading(title, level=2), blocks.text(_ABOUT), _figure(rows, name, launches, looks)]
        parts.append(_table(rows))
    return parts


def _figure(rows: pd.DataFrame, name: str, launches: pd.DataFrame, looks: dict[str, style.Style]) -> blocks.Block:
    # The fewest workers, so that a panel has one number of them.
    shown = rows[rows["workers"] == rows.groupby(["hosts", "delay_seconds"])["workers"].transform("min")]
    said = [
        f"Step time and throughput by bandwidth, {name}: medians with their intervals, every launch a faint mark, "
        f"n = {blocks.span(shown['n'])} launches each. Dotted: the ring's lower bound. Level: one host alone."
    ]
    said += ["Dashed: other maths, which sends less than the ring."] if not shown["same_maths"].all() else []
    said += ["A step of asynchronous workers is one worker's update."] if not shown["synchronous"].all() else []
    said += ["Hollow: more threads than cores."] if shown["oversubscribed"].any() else []
    said += ["With more workers on each host: in the table."] if len(shown) < len(rows) else []
    alternative = (
        "Panels for each number of hosts: lines over the bandwidth of the link, of the step's time above and of "
        "samples per second below, beside one host alone and the ring's lower bound. A table has what they come to."
    )
    keys = ["regime", "strategy", "workers"]
    facts = ["hosts", "delay_seconds", "bandwidth_bits_per_second"]
    points = launches[launches["exchange"]].drop(columns=facts).merge(shown[[*keys, "own", *facts]], on=keys)
    # Other maths is dashed.
    same_maths = shown.groupby("own")["same_maths"].all()
    looks = looks | {own: replace(looks[own], line="-" if same else _DASHES) for own, same in same_maths.items()}
    draw = partial(curves, _plot(shown, points, looks), looks)
    return blocks.figure(FIGURE, draw, " ".join(said), alternative, stacks=True)


def _plot(cells: pd.DataFrame, launches: pd.DataFrame, looks: Mapping[str, style.Style]) -> Plot:
    """The time of a step, and below it the samples per second, over the bandwidth: a panel for each number of hosts."""
    medians, lines = _marks(cells), []
    ticks = sorted(medians["x"].unique())
    for panel, here in medians[medians["measure"] == _TIME].groupby("panel", sort=False):
        for base in here.dropna(subset=["base"]).drop_duplicates("base").sort_values("base").to_dict("records"):
            time, rate = 1000 * base["base_seconds"], base["base_samples_per_second"]
            tip = {"one host alone": base["base"], "ms per step": blocks.number(time), "samples/s": f"{rate:,.0f}"}
            about = {"panel": panel, "color": style.color_of(base["base"], looks), "key": base["base"], "tips": [tip]}
            about |= {"label": f"one host alone: {base['base']}", "dashes": "-", "x": [ticks[0], ticks[-1]]}
            lines += [Line(measure=_TIME, values=[time] * 2, **about), Line(measure=_RATE, values=[rate] * 2, **about)]
        bound = here.drop_duplicates("x").sort_values("x")
        label = "the ring's lower bound on the link"
        lines.append(Line(measure=_TIME, panel=panel, x=bound["x"], values=1000 * bound["bound_seconds"], label=label))
    words = {megabits: layout.short(float(f"{megabits:.2g}")) for megabits in ticks}
    x = "Mbit/s from host to host"
    return Plot(launches=_marks(launches), medians=medians, lines=lines, x_label=x, ticks=words)


def _marks(rows: pd.DataFrame) -> pd.DataFrame:
    """Launches, or medians, which have intervals, as rows of a plot: each by its time, and by its rate."""
    panels, tips = [], []
    for row in rows.to_dict("records"):
        each = int(row["workers"]) // int(row["hosts"])
        hosts = f"{row['hosts']} hosts" + (f", {each} workers each" if each > 1 else "")
        panels.append(hosts + (f", {1000 * row['delay_seconds']:g} ms delay" if row["delay_seconds"] else ""))
        tip = {"strategy": row["own"], "hosts": panels[-1], "Mbit/s": f"{row['bandwidth_bits_per_second'] / 1e6:,.4g}"}
        tip |= {"ms per step": blocks.milliseconds(row["seconds"]), "samples/s": f"{row['samples_per_second']:,.0f}"}
        if "launch" in row:
            tip["launch (n = 1)"] = row["launch"]
        else:
            ends = f"{numbers.interval(row['low_seconds'], row['high_seconds'], blocks.milliseconds)} ms"
            tip["95 % interval"] = "none: too few launches" if math.isnan(row["low_seconds"]) else ends
            tip |= {"times one host's": numbers.ratio(row["ratio"]), "launches (n)": row["n"]}
        tips.append(tip)
    marks = rows.assign(panel=panels, tip=tips, series=rows["own"], x=rows["bandwidth_bits_per_second"] / 1e6)
    marks = marks.sort_values(["hosts", "delay_seconds", "own"], kind="stable")
    times = marks.assign(measure=_TIME, value=1000 * marks["seconds"])
    rates = marks.assign(measure=_RATE, value=marks["samples_per_second"])
    if "low_seconds" in marks:
        times = times.assign(low=1000 * marks["low_seconds"], high=1000 * marks["high_seconds"])
        batch = marks["global_batch"]
        rates = rates.assign(low=batch / marks["high_seconds"], high=batch / marks["low_seconds"])
    return pd.concat([times, rates])


def _table(rows: pd.DataFrame) -> blocks.Block:
    lines = [
        [
            *[row["own"], str(row["hosts"]), blocks.world(row["workers"], row["oversubscribed"])],
            *[_in_words(row), str(row["ratio_n"])],
            f"{numbers.bandwidth(row['least_bits_per_second'])}: {blocks.number(row['least_ratio'])}",
            f"{numbers.bandwidth(row['bandwidth_bits_per_second'])}: {blocks.number(row['ratio'])}",
            numbers.interval(row["ratio_low"], row["ratio_high"]),
        ]
        for row in paying(rows).to_dict("records")
    ]
    columns = ["strategy", "hosts", "workers", "pays from", "rounds\n(n)", "ratio over the\nslowest link"]
    columns += ["ratio over the\nfastest link", "95 %\ninterval"]
    notes = ["Ratio: how many times one host's samples per second, the median over rounds that have both."]
    notes += blocks.few_note(rows["ratio_n"], "rounds") + blocks.oversubscribed_note(rows["oversubscribed"])
    if not rows["is_chosen"].all():
        notes.append("The fastest link is as fast as it goes: its bandwidth is what calibration found.")
    return blocks.table(columns, lines, notes)


def _in_words(row: Mapping[str, object]) -> str:
    if math.isnan(row["ratio"]):
        return "its base wasn't measured"
    if row["ratio_n"] < FEWEST_LAUNCHES:
        return "too few rounds"
    if math.isnan(row["pays_from"]):
        return f"not up to {numbers.bandwidth(row['bandwidth_bits_per_second'])}"
    return numbers.bandwidth(row["pays_from"])
