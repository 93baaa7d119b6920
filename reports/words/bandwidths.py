"""From which bandwidth on distributing pays: a figure and a table for each sweep."""

import math
from collections.abc import Mapping
from functools import partial

import pandas as pd

from common.observations import numbers
from common.records.header import PAYLOAD_BYTES, WIRE_BYTES
from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks
from reports.charts import style, sweep
from reports.tables import summaries
from reports.tables.bandwidths import one_world, paying, table
from reports.tables.material import Material

FIGURE = "sweep"
"""The name of the figure, which README shows as well."""


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


def _figure(rows: pd.DataFrame, name: str, launches: pd.DataFrame, looks: Mapping[str, style.Style]) -> blocks.Block:
    shown = one_world(rows)
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
    return blocks.figure(FIGURE, drawing(rows, launches, looks), " ".join(said), alternative, stacks=True)


def drawing(rows: pd.DataFrame, launches: pd.DataFrame, looks: Mapping[str, style.Style]) -> partial:
    """How the sweep of one regime is drawn: `rows` of `table`, and the launches of `summaries` that they rest on."""
    shown = one_world(rows)
    points = launches[launches["exchange"]].merge(
        shown[["regime", "strategy", "workers", "own", "bandwidth_bits_per_second"]],
        on=["regime", "strategy", "workers"],
        suffixes=("_asked", ""),
    )
    return partial(sweep.sweep, shown, points, dict(looks))


def _table(rows: pd.DataFrame) -> blocks.Block:
    lines = [
        [
            *[row["own"], str(row["hosts"]), blocks.world(row["workers"], row["oversubscribed"])],
            *[_in_words(row), str(row["ratio_n"])],
            f"{numbers.bandwidth(row['least_bits_per_second'])}: {blocks.number(row['least_ratio'])}",
            f"{numbers.bandwidth(row['bandwidth_bits_per_second'])}: {blocks.number(row['ratio'])}",
            blocks.interval(row["ratio_low"], row["ratio_high"]),
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
