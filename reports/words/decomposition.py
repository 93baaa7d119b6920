"""Why N workers aren't N times as fast: the figure and the tables of what a step takes beyond the ideal."""

import math
from collections.abc import Callable, Mapping
from functools import partial

import pandas as pd

from reports import blocks
from reports.blocks import MINUS, Block, listed
from reports.charts import steps
from reports.tables import summaries
from reports.tables.decomposition import (
    NAMED_SHARE,
    PARTS,
    REST,
    is_distributed,
)
from reports.tables.material import Material

_NOTHING = (
    "No strategy was measured beside the undistributed base that it names, so nothing tells how long a step should "
    "ideally take."
)
_MOST_BARS = 40


_DEFINITIONS = [
    "Ideal: T_base under weak scaling, T_base / N under strong scaling, by the median of all the base's launches.",
    f"Exchange: T_step {MINUS} T_comp, what isn't hidden behind computing. It holds the wait for a rank that is "
    "late in one step and early in the next.",
    f"Slowest rank: T_comp {MINUS} T_comp / s, where s is the slowest rank's time for a window over the median "
    "rank's. Replicas in one process wait as a part of computing.",
    "Rows: how much longer than in the ideal step a rank waits for its rows at most. Where a strategy doesn't "
    "measure it, it is a part of computing.",
    "Computing: what is left of T_comp, T_step for one worker: shared caches, memory and clock rate, the machinery "
    "of distribution, smaller shards. Below zero the strategy computes faster than its base.",
    f"Not divided: T_step {MINUS} rows {MINUS} ideal, where no launch without exchange shares a round.",
    f"The rest: the measured step {MINUS} ideal {MINUS} all parts. It isn't zero over several rounds, since a "
    "median of differences is no difference of medians.",
]


def story(material: Material) -> list[Block]:
    """Why N workers aren't N times as fast: the bars of the first regime that has any, and what their parts are."""
    parts, told = [blocks.heading("Why not N times", level=2)], _by_regime(material)
    if not told:
        return [*parts, blocks.text(" ".join([_NOTHING, *_left_out(material.cells)]))]
    rows = next(iter(told.values()))
    about = (
        "If N workers were N times as fast, a step would take an N-th of the time in which the undistributed base "
        "computes as many rows. What it takes beyond that is divided here: T_step is the step as trained, T_comp the "
        "same without exchange, T_base the base's. Each part is the median over n rounds of a difference within a "
        "round."
    )
    return [*parts, blocks.text(about), _figure(rows, material.ceilings, material.names)]


def tables(material: Material) -> list[Block]:
    """The parts of every step: what they are, and a table for each regime; nothing without any."""
    told = _by_regime(material)
    if not told:
        return []
    parts = [blocks.heading("From the ideal step to the measured one", level=2), blocks.items(_DEFINITIONS)]
    for regime, rows in told.items():
        if len(told) > 1:
            parts.append(blocks.heading(material.names[regime], level=3))
        parts.append(_table(rows))
    absent = _left_out(material.cells)
    return [*parts, *([blocks.items(absent)] if absent else [])]


def _by_regime(material: Material) -> dict[str, pd.DataFrame]:
    """The parts of the steps of each regime that is shown, where it has any."""
    groups = dict([*material.parts.groupby("regime")])
    return {name: groups[name] for name in material.regimes if name in groups}


def _figure(rows: pd.DataFrame, ceilings: pd.DataFrame, names: Mapping[str, str]) -> Block:
    """Draw the bars of one regime: of all its worlds, or of the largest with a core each where they are too many."""
    shown, only = summaries.over_fastest_links(rows), ""
    if len(shown) < len(rows):
        only = " Of several links the fastest; the table has all."
    if len(shown.drop_duplicates(["strategy", "workers"])) > _MOST_BARS:
        fitting = shown.loc[~shown["oversubscribed"], "workers"]
        workers = fitting.max() if len(fitting) else shown["workers"].min()
        shown = shown[shown["workers"] == workers]
        only = f" Only {blocks.workers(workers)}; the table has all."
    keys = ["regime", "strategy", "workers"]
    shown = shown.merge(ceilings[[*keys, "products_seconds"]], on=keys, how="left")
    products = ""
    if shown["products_seconds"].notna().any():
        products = " A triangle marks what the framework's own matrix products take, by its probe (n = 1)."
    oversubscribed = " † in grey: more threads than cores." if shown["oversubscribed"].any() else ""
    caption = (
        f"A step from ideal to measured, {names[rows['regime'].iloc[0]]}: the ideal, then what it takes beyond it. A "
        "part below zero saves time and stands left of zero. The line and the number are the measured step; a bar that "
        f"is cut ends with ». Medians over n = {blocks.span(shown['n'])} rounds.{products}{oversubscribed}{only}"
    )
    alt = (
        "A bar for each strategy and number of workers, from the ideal step to the measured one, divided into what "
        "takes time. The table of these parts has all numbers."
    )
    return blocks.figure("scaling", partial(steps.scaling, shown), caption, alt)


def _table(rows: pd.DataFrame) -> Block:
    shown = [part for part in PARTS if (rows["part"] == part).any()]
    lines = []
    for _, own in rows.groupby(["strategy", "workers"]):
        cell = own.iloc[0]
        # With so many digits after the point the step has three significant ones, and so have all of its parts.
        digits = max(0, 2 - math.floor(math.log10(1000 * cell["measured_seconds"])))
        write = partial(blocks.milliseconds, digits=digits)
        words = {row["part"]: _in_words(row, write) for row in own.to_dict("records")}
        known = [cell["strategy"], blocks.world(cell["workers"], cell["oversubscribed"]), write(cell["ideal_seconds"])]
        measured = blocks.with_interval(cell["measured_seconds"], cell["measured_low"], cell["measured_high"], write)
        lines.append([*known, *[words.get(part, blocks.DASH) for part in shown], measured, blocks.span(own["n"])])
    columns = ["strategy", "workers", "ideal, ms", *shown, "measured, ms", "n"]
    notes = [
        "Parts are in milliseconds per step, in parentheses the 95 % interval of the median; of a rest beyond "
        f"{blocks.percent(NAMED_SHARE)} of the measured step, its share."
    ]
    notes += blocks.few_note(rows["n"], "rounds")
    if not rows["is_paired"].all():
        notes.append(
            "* No launch of the base shares a round: its median over all rounds takes its place, and no interval is "
            "given."
        )
    return blocks.table(columns, lines, notes + blocks.oversubscribed_note(rows["oversubscribed"]), left=(0,))


def _in_words(row: Mapping[str, object], write: Callable[[float], str]) -> str:
    """A part in milliseconds, and below it its interval, or the share of a rest that is large."""
    share = row["seconds"] / row["measured_seconds"]
    if row["part"] == REST and abs(share) > NAMED_SHARE:
        return f"{write(row['seconds'])}\n({blocks.percent(share, 1)})"
    number = blocks.with_interval(row["seconds"], row["low"], row["high"], write)
    # What isn't paired has no interval.
    return number if row["is_paired"] else f"{number}*"


def _left_out(cells: pd.DataFrame) -> list[str]:
    own = cells[is_distributed(cells)]
    asynchronous = own[~own["synchronous"]]
    alone = own[own["synchronous"] & own["base_samples_per_second"].isna()]
    said = []
    if len(asynchronous):
        names = listed(sorted(asynchronous["strategy"].unique()))
        said.append(f"Left out for asynchronous updates, which belong to one worker each: {names}.")
    for base, group in alone.groupby("named_base"):
        said.append(f"Left out, since {base} wasn't measured on the same work: {blocks.who(group)}.")
    return said
