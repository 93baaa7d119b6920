"""From which bandwidth on distributing pays: a figure and a sentence for each strategy of a sweep."""

import math
from collections.abc import Mapping
from functools import partial

import pandas as pd

from common.observations import answers, numbers
from common.records.header import PAYLOAD_BYTES, WIRE_BYTES
from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks
from reports.charts import layout, style
from reports.charts.curves import Line, Plot, curves
from reports.tables import summaries
from reports.tables.bandwidths import table
from reports.tables.material import Material

FIGURE = "sweep"  # README shows it as well.
_TIME, _RATE = "ms per step", "samples per second"

_ABOUT = (
    "The same step over links of several bandwidths. A step can't be shorter than the link needs for its exchange: by "
    f"a ring of N workers, 2 (N {numbers.MINUS} 1) / N times the bytes of the gradients leave each host (Patarasuk & "
    f"Yuan, 2009, equation 1), and {PAYLOAD_BYTES} of them take {WIRE_BYTES} on Ethernet. One host alone is the "
    "undistributed base. Distributing pays where the whole interval of the ratio to its rate is above 1, there and "
    "over every faster link."
)


def section(material: Material) -> list[blocks.Block]:
    """The figure of each regime that has a sweep, and from which bandwidth on each strategy pays."""
    launches, records = material.launches, material.results.records
    sweeps = table(material.configurations, launches, records)
    if sweeps.empty:
        return []
    # One style for each strategy with its options, whatever its hosts, and for each base.
    shown = launches[launches["strategy"].isin({*sweeps["strategy"], *sweeps["base"].dropna()})]
    names = zip(summaries.without_hosts(shown), shown["launch"], strict=True)
    looks = style.styles({name: records[launch].colors for name, launch in names})
    parts: list[blocks.Block] = []
    for regime, name in material.shown.items():
        rows = sweeps[sweeps["regime"] == regime]
        if len(rows):
            parts += [blocks.heading(f"From which bandwidth on it pays: {name}", level=2), blocks.text(_ABOUT)]
            parts += [_figure(rows, launches, looks), blocks.items(_sentences(rows))]
    return parts


def _figure(rows: pd.DataFrame, launches: pd.DataFrame, looks: dict[str, style.Style]) -> blocks.Block:
    """Draw the sweep with the fewest workers on each number of hosts, so that a panel has one number of them."""
    shown = rows[rows["workers"] == rows.groupby(["hosts", "delay_seconds"])["workers"].transform("min")]
    caption = (
        "Step time and throughput by bandwidth: medians with their intervals, every launch a faint mark, "
        f"n = {blocks.span(shown['n'])} launches each. Dotted: the ring's lower bound. Level: one host alone."
    )
    caption += "" if shown["synchronous"].all() else " A step of asynchronous workers is one worker's update."
    caption += " Hollow: more threads than cores." if shown["oversubscribed"].any() else ""
    caption += " With more workers on each host: in the sentences." if len(shown) < len(rows) else ""
    alternative = (
        "Panels for each number of hosts: lines over the bandwidth of the link, of the step's time above and of "
        "samples per second below, beside one host alone and the ring's lower bound."
    )
    keys = ["regime", "strategy", "workers"]
    facts = ["hosts", "delay_seconds", "bandwidth_bits_per_second"]
    points = launches[launches["exchange"]].drop(columns=facts).merge(shown[[*keys, "own", *facts]], on=keys)
    draw = partial(curves, _plot(shown, points, looks), looks)
    return blocks.figure(FIGURE, draw, caption, alternative, stacks=True)


def _plot(cells: pd.DataFrame, launches: pd.DataFrame, looks: Mapping[str, style.Style]) -> Plot:
    """The time of a step, and below it the samples per second, over the bandwidth: a panel for each number of hosts."""
    medians, lines = _marks(cells), []
    ticks = sorted(medians["x"].unique())
    for panel, here in medians[medians["measure"] == _TIME].groupby("panel", sort=False):
        for base in here.dropna(subset=["base"]).drop_duplicates("base").sort_values("base").itertuples():
            about = {"panel": panel, "color": style.color_of(base.base, looks), "key": base.base, "dashes": "-"}
            about |= {"label": f"one host alone: {base.base}", "x": [ticks[0], ticks[-1]]}
            levels = {_TIME: 1000 * base.base_seconds, _RATE: base.base_samples_per_second}
            for measure, level in levels.items():
                tip = {"one host alone": base.base, measure: blocks.number(level)}
                lines.append(Line(measure=measure, values=[level] * 2, tips=[tip], **about))
        bound = here.drop_duplicates("x").sort_values("x")
        label = "the ring's lower bound on the link"
        lines.append(Line(measure=_TIME, panel=panel, x=bound["x"], values=1000 * bound["bound_seconds"], label=label))
    words = {megabits: layout.short(float(f"{megabits:.2g}")) for megabits in ticks}
    x = "Mbit/s from host to host"
    return Plot(launches=_marks(launches), medians=medians, lines=lines, x_label=x, ticks=words)


def _marks(rows: pd.DataFrame) -> pd.DataFrame:
    """Launches, or medians, which have intervals, as rows of a plot: each by its time, and by its rate."""
    rows = rows.sort_values(["hosts", "delay_seconds", "own"], kind="stable")
    panels = rows["hosts"].astype(str) + " hosts"
    panels += (rows["workers"] // rows["hosts"]).map(lambda each: f", {each} workers each" if each > 1 else "")
    panels += rows["delay_seconds"].map(lambda seconds: f", {1000 * seconds:g} ms delay" if seconds else "")
    marks = rows.assign(panel=panels, series=rows["own"], x=rows["bandwidth_bits_per_second"] / 1e6)
    times = marks.assign(measure=_TIME, value=1000 * marks["seconds"])
    rates = marks.assign(measure=_RATE, value=marks["samples_per_second"])
    if "low_seconds" in marks:
        times = times.assign(low=1000 * marks["low_seconds"], high=1000 * marks["high_seconds"])
        batch = marks["global_batch"]
        rates = rates.assign(low=batch / marks["high_seconds"], high=batch / marks["low_seconds"])
    return pd.concat([times, rates])


def _sentences(rows: pd.DataFrame) -> list[str]:
    """From which bandwidth on each strategy pays, by its ratio to one host alone, or why nothing tells that."""
    sentences = []
    for (own, hosts, workers), group in rows.groupby(["own", "hosts", "workers"]):
        swept = group.sort_values("bandwidth_bits_per_second")
        pays_from = answers.pays_from(swept.rename(columns={"bandwidth_bits_per_second": "x", "ratio_low": "low"}))
        fastest = swept.iloc[-1]
        link = numbers.bandwidth(fastest["bandwidth_bits_per_second"])
        if math.isnan(fastest["ratio"]):
            said = "its base wasn't measured"
        elif fastest["ratio_n"] < FEWEST_LAUNCHES:
            said = f"too few rounds (n = {fastest['ratio_n']})"
        else:
            where = "not up to " + link if pays_from is None else "from " + numbers.bandwidth(pays_from)
            ends = numbers.interval(fastest["ratio_low"], fastest["ratio_high"])
            said = f"pays {where}; at {link} {numbers.ratio(fastest['ratio'])} times one host's rate ({ends})"
        world = blocks.world(workers, group["oversubscribed"].any())
        sentences.append(f"{own}, {hosts} hosts, {world} workers: {said}.")
    return sentences
