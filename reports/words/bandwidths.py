"""From which bandwidth on distributing pays: a figure, a table and a sentence for each sweep."""

import math
from collections.abc import Mapping
from functools import partial

import pandas as pd

from common.launching.virtual_hosts.calibration import PAYLOAD_BYTES, WIRE_BYTES
from common.records.training import Record
from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks
from reports.blocks import Block
from reports.charts import style, sweep
from reports.tables import summaries
from reports.tables.bandwidths import losses, one_world, paying
from reports.tables.material import Material

FIGURE = "sweep"
"""The name of the figure, which README shows as well."""

_MOST_NAMED = 6


def finding(found: pd.DataFrame, regime: str) -> list[str]:
    """For each number of hosts of a regime a sentence: who pays by its own interval, and from which bandwidth on."""
    said = []
    shown = one_world(found[found["regime"] == regime])
    for (hosts, delay), group in shown.groupby(["hosts", "delay_seconds"]):
        told = paying(group)
        told = told[(told["rounds"] >= FEWEST_LAUNCHES) & told["same_maths"].astype(bool)]
        if told.empty:
            continue
        behind = f" with {1000 * delay:g} ms delay" if delay else ""
        oversubscribed = "; † more threads than cores" if told["oversubscribed"].any() else ""
        rounds = f"n = {blocks.span(told['rounds'])} rounds"
        said.append(f"Over {hosts} virtual hosts{behind} {_pays(told)} ({rounds}{oversubscribed}).")
    return said


def section(material: Material) -> list[Block]:
    """The figure and the table of each regime that has a sweep."""
    found, launches, records = material.bandwidths, material.launches, material.results.records
    names = material.shown
    looks = _looks(found, launches, records)
    swept = [name for name in names if (found["regime"] == name).any()]
    parts: list[Block] = []
    for regime in swept:
        rows = found[found["regime"] == regime]
        title = "From which bandwidth on it pays" + (f": {names[regime]}" if len(swept) > 1 else "")
        said = finding(found, regime)
        parts += [
            blocks.heading(title, level=2),
            blocks.text(_about()),
            blocks.figure(FIGURE, drawing(rows, launches, looks), _caption(rows, names[regime]), _alternative(rows)),
            *([blocks.items(said)] if said else []),
            _table(rows, losses(rows, launches, records)),
        ]
    return parts


def _looks(found: pd.DataFrame, launches: pd.DataFrame, records: Mapping[str, Record]) -> dict[str, style.Style]:
    """One style for each strategy with its options, whatever its hosts, and for each base."""
    strategies = {*found["strategy"], *found["base"].dropna()}
    shown = launches[launches["strategy"].isin(strategies)].drop_duplicates("strategy")
    names = summaries.without_hosts(shown)
    return style.styles({name: records[launch].colors for name, launch in zip(names, shown["launch"], strict=True)})


def drawing(rows: pd.DataFrame, launches: pd.DataFrame, looks: Mapping[str, style.Style]) -> partial:
    """How the sweep of one regime is drawn: `rows` of `table`, and the launches of `summaries` that they rest on."""
    shown = one_world(rows)
    points = launches[launches["exchange"].astype(bool)].merge(
        shown[["regime", "strategy", "workers", "own", "bandwidth_bits_per_second"]],
        on=["regime", "strategy", "workers"],
        suffixes=("_asked", ""),
    )
    return partial(sweep.sweep, shown, points, dict(looks))


def _about() -> str:
    return (
        "The same step over links of several bandwidths, with as many workers on every host. Above, how long a step "
        "takes; below, the samples per second of all workers together. A step can't be shorter than the link needs for "
        "its exchange: by a ring, 2 (N \N{MINUS SIGN} 1) / N times the bytes of the gradients leave each host, of N "
        f"workers (Patarasuk & Yuan, 2009, equation 1), and {PAYLOAD_BYTES} bytes of them take {WIRE_BYTES} on "
        "Ethernet. Computing isn't in that bound. One host alone is the undistributed base, for the rows of one "
        "worker. Distributing pays by its own interval where the whole interval of the ratio to its rate, over "
        "launches of the same round, is above 1, there and over every faster link."
    )


def _caption(rows: pd.DataFrame, name: str) -> str:
    shown = one_world(rows)
    said = [
        f"Step time and throughput by bandwidth, {name}: medians with their intervals, every launch a faint mark, "
        f"n = {blocks.span(shown['n'])} launches each. Dotted: the ring's lower bound. Level: one host alone."
    ]
    said += ["Dashed: other maths, which sends less than the ring."] if not shown["same_maths"].all() else []
    said += ["A step of asynchronous workers is one worker's update."] if not shown["synchronous"].all() else []
    said += ["Hollow: more threads than cores."] if shown["oversubscribed"].any() else []
    said += ["With more workers on each host: in the table."] if len(shown) < len(rows) else []
    return " ".join(said)


def _alternative(rows: pd.DataFrame) -> str:
    hosts = blocks.listed([str(count) for count in sorted(rows["hosts"].unique())])
    return (
        f"Two panels for each of {hosts} hosts: lines over the bandwidth of the link, of the step's time above and of "
        "samples per second below, beside one host alone and the ring's lower bound. A table has what they come to."
    )


def _table(rows: pd.DataFrame, reached: Mapping[tuple, Mapping[str, float]]) -> Block:
    """From which bandwidth on each pays, and what other maths does to the loss."""
    found = paying(rows)
    slowest, fastest = (found[name].unique() for name in ("least_bits_per_second", "bandwidth_bits_per_second"))
    is_shared = len(slowest) == len(fastest) == 1
    lines = []
    for row in found.to_dict("records"):
        ends = {"least_bits_per_second": "least_ratio", "bandwidth_bits_per_second": "ratio"}
        links = ["" if is_shared else f"{_megabits(row[link])}: " for link in ends]
        ratios = [f"{link}{blocks.number(row[name])}" for link, name in zip(links, ends.values(), strict=True)]
        loss = reached.get((row["regime"], row["own"], row["hosts"], row["workers"]))
        lines.append(
            [
                *[
                    row["own"],
                    str(row["hosts"]),
                    blocks.world(row),
                    _in_words(row),
                    str(row["rounds"]),
                ],
                *ratios,
                blocks.interval(row["low"], row["high"]),
                *_loss(loss),
            ]
        )
    at = ["over the\nslowest link", "over the\nfastest link"]
    if is_shared:
        at = [f"at {_megabits(each[0])}\nMbit/s" for each in (slowest, fastest)]
    columns = ["strategy", "hosts", "workers", "pays from,\nMbit/s", "rounds\n(n)"]
    columns += [*(f"ratio {each}" for each in at), "95 %\ninterval", "loss", "beside\nplain"]
    if not reached:
        columns, lines = columns[:-2], [line[:-2] for line in lines]
    return blocks.table(columns, lines, _notes(rows, bool(reached)), left=(0, 3))


def _notes(rows: pd.DataFrame, has_losses: bool) -> list[str]:
    notes = ["Ratio: how many times one host's samples per second, the median over rounds that have both."]
    if has_losses:
        notes.append(
            "Loss: of the last step, the median over launches, after so many steps; beside it the difference from the "
            "same strategy's without other maths after as many."
        )
    if (rows["rounds"] < FEWEST_LAUNCHES).any():
        notes.append(f"With fewer than {FEWEST_LAUNCHES} rounds there is no interval, and so no telling what pays.")
    if rows["oversubscribed"].any():
        notes.append("† more threads than cores: hosts with cores of their own compute faster, and may pay earlier.")
    if not rows["is_chosen"].all():
        notes.append("The fastest link is as fast as it goes: its bandwidth is what calibration found.")
    return notes


def _in_words(row: Mapping[str, object]) -> str:
    if math.isnan(row["ratio"]):
        return "its base wasn't measured"
    if row["rounds"] < FEWEST_LAUNCHES:
        return "too few rounds"
    if math.isnan(row["pays_from"]):
        return f"not up to {_megabits(row['bandwidth_bits_per_second'])}"
    return _megabits(row["pays_from"])


def _loss(reached: Mapping[str, float] | None) -> list[str]:
    if reached is None:
        return [blocks.DASH, blocks.DASH]
    if math.isnan(reached["loss"]):
        return ["not finite", blocks.DASH]
    loss, difference = f"{reached['loss']:.5f} after {reached['steps']:,}", reached["difference"]
    if math.isnan(difference):
        return [loss, blocks.DASH]
    sign = "+" if difference > 0 else "\N{MINUS SIGN}" if difference < 0 else ""
    return [loss, f"{sign}{blocks.tiny(abs(difference))}" if difference else "0"]


def _pays(told: pd.DataFrame) -> str:
    """From which bandwidths on the strategies of these rows of `paying` pay, and with whom it doesn't."""
    parts = [f"from {_megabits(bandwidth)} Mbit/s on with {_who(own)}" for bandwidth, own in told.groupby("pays_from")]
    verb, never = ("pays" if parts else "doesn't pay"), told[told["pays_from"].isna()]
    if len(never):
        until = f"up to {_megabits(never['bandwidth_bits_per_second'].max())} Mbit/s with {_who(never)}"
        parts.append(f"not {until}" if parts else until)
    return f"distributing {verb} by its own interval, beside one host alone, {', '.join(parts)}"


def _who(rows: pd.DataFrame) -> str:
    """The strategies of these rows, with a dagger where they're oversubscribed; of many how many they are."""
    names = [f"{row['own']}{' †' if row['oversubscribed'] else ''}" for row in rows.to_dict("records")]
    return blocks.listed(names) if len(names) <= _MOST_NAMED else f"{len(names)} strategies"


def _megabits(bits_per_second: float) -> str:
    return f"{float(f'{bits_per_second / 1e6:.3g}'):,g}"
