"""From where on distributing pays: over the bandwidth of the hosts' link, and over what networks compute and send."""

import math
from collections.abc import Mapping
from functools import partial

import pandas as pd

from common.observations import answers, numbers
from common.records.header import PAYLOAD_BYTES, WIRE_BYTES
from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks
from reports.charts import style
from reports.charts.curves import Line, Plot, curves
from reports.tables import summaries
from reports.tables import sweeps as tables
from reports.tables.material import Material

_TIME, _RATE, _SPEED_UP = "ms per step", "samples per second", "speed-up"
_HEIGHT = 130.0  # Millimetres of the figure of networks: so the page is filled.

_BANDWIDTHS = (
    "The same step over links of several bandwidths. A step can't be shorter than the link needs for its exchange: by "
    f"a ring of N workers, 2 (N {numbers.MINUS} 1) / N times the bytes of the gradients leave each host (Patarasuk & "
    f"Yuan, 2009, equation 1), and {PAYLOAD_BYTES} of them take {WIRE_BYTES} on Ethernet. One host alone is the "
    "undistributed base. Distributing pays where the whole interval of the ratio to its rate is above 1, there and "
    "over every faster link."
)


def bandwidths(material: Material) -> list[blocks.Block]:
    """The figure of each regime that has a sweep, and from which bandwidth on each strategy pays."""
    launches, records = material.launches, material.results.records
    sweeps = tables.bandwidths(material.configurations, launches, records)
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
            parts += [blocks.heading(f"From which bandwidth on it pays: {name}", level=2), blocks.text(_BANDWIDTHS)]
            parts += [_figure_of_bandwidths(rows, launches, looks), blocks.items(_sentences(rows))]
    return parts


def _figure_of_bandwidths(rows: pd.DataFrame, launches: pd.DataFrame, looks: dict[str, style.Style]) -> blocks.Block:
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
    draw = partial(curves, _plot_of_bandwidths(shown, points, looks), looks)
    return blocks.figure("sweep", draw, caption, alternative, stacks=True)


def _plot_of_bandwidths(cells: pd.DataFrame, launches: pd.DataFrame, looks: Mapping[str, style.Style]) -> Plot:
    """The time of a step, and below it the samples per second, over the bandwidth: a panel for each number of hosts."""
    medians, lines = _marks_of_bandwidths(cells), []
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
    words = {megabits: numbers.short(float(f"{megabits:.2g}")) for megabits in ticks}
    x = "Mbit/s from host to host"
    return Plot(launches=_marks_of_bandwidths(launches), medians=medians, lines=lines, x_label=x, ticks=words)


def _marks_of_bandwidths(rows: pd.DataFrame) -> pd.DataFrame:
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


def networks(material: Material) -> list[blocks.Block]:
    """A sentence for each strategy, and the figure; nothing where fewer networks were measured than make a line."""
    rows = material.networks
    if rows.empty:
        return []
    about = (
        "A network has so many operations in a worker's step for each byte of gradients that its workers exchange. "
        "Those with many keep workers computing; those with few keep them waiting."
    )
    sentences = [_sentence_of_networks(group) for _, group in rows.groupby(["strategy", "workers"], sort=False)]
    caption = (
        "Speed-up over one worker of the base, by operations per byte of gradient. Faint: a launch; lines join "
        "medians; upright: 95 % intervals; thin: R / (c + k / x), fitted to each strategy's networks. "
        f"n = {blocks.span(rows['n'])} launches."
    )
    alt = "A panel for each number of workers: the speed-up of each strategy over the operations per byte of gradient."
    looks = style.styles(material.colors)
    draw = partial(curves, _plot_of_networks(rows, material.launches, looks), looks)
    return [
        blocks.heading("For which network it pays", level=2),
        blocks.text(about),
        blocks.items(sentences),
        blocks.figure("networks", draw, caption, alt, stacks=True),
    ]


def _sentence_of_networks(rows: pd.DataFrame) -> str:
    """For which networks one strategy with one number of workers pays, and from where on by its line."""
    first = rows.iloc[0]
    measured = {
        "pays for": rows[rows["low"] > 1],
        "doesn't for": rows[rows["high"] < 1],
        "can't be told for": rows[~((rows["low"] > 1) | (rows["high"] < 1))],
    }
    parts = [f"{words} {blocks.some(sorted(each['network']))}" for words, each in measured.items() if len(each)]
    line = ""
    if not math.isnan(first["pays_from"]):
        line = f"; by its line from {numbers.number(first['pays_from'])} operations per byte on"
    elif rows["line"].notna().any():
        line = "; by its line never"
    return f"{first['strategy']} with {blocks.workers(first['workers'])} {', '.join(parts)}{line}."


def _plot_of_networks(rows: pd.DataFrame, launches: pd.DataFrame, looks: Mapping[str, style.Style]) -> Plot:
    keys = ["regime", "strategy", "workers"]
    facts = [*keys, "operations_per_byte", "network", "base_samples_per_second"]
    points = launches[launches["exchange"]].merge(rows[facts], on=keys)
    points["speed_up"] = points["samples_per_second"] / points["base_samples_per_second"]
    lines, ends = list[Line](), [rows["operations_per_byte"].min(), rows["operations_per_byte"].max()]
    for workers, here in rows.groupby("workers"):
        panel = blocks.workers(workers)
        lines.append(Line(measure=_SPEED_UP, panel=panel, x=ends, values=[1, 1], label="one worker of the base"))
        for strategy, own in here.dropna(subset=["line"]).groupby("strategy"):
            look = {"color": style.color_of(strategy, looks), "dashes": (0, (4, 2)), "width": 0.6, "key": strategy}
            x = own["operations_per_byte"]
            lines.append(Line(measure=_SPEED_UP, panel=panel, x=x, values=own["line"], label="fitted line", **look))
    ticks = rows.drop_duplicates("operations_per_byte").set_index("operations_per_byte")["network"].sort_index()
    # Every other name stands lower, since two networks can be near each other.
    words = {x: "\n" * (place % 2) + f"{name}: {numbers.number(x)}" for place, (x, name) in enumerate(ticks.items())}
    medians = _marks_of_networks(rows).assign(low=rows["low"], high=rows["high"])
    about = {"x_label": "operations per byte of gradient", "height": _HEIGHT}
    return Plot(launches=_marks_of_networks(points), medians=medians, lines=lines, ticks=words, **about)


def _marks_of_networks(rows: pd.DataFrame) -> pd.DataFrame:
    panels, x = rows["workers"].map(blocks.workers), rows["operations_per_byte"]
    return rows.assign(measure=_SPEED_UP, panel=panels, series=rows["strategy"], x=x, value=rows["speed_up"])
