"""What the rounds decide of each configuration: whether it pays to distribute, and whether an exchange is hidden."""

import math
from collections.abc import Sequence

import pandas as pd

from common.observations.numbers import MINUS
from reports import blocks
from reports.tables.material import Material
from reports.tables.paying import SURELY_DOES_NOT

_PAYING = (
    "R workers pay where they take less time for an epoch than one worker of the base, by the rounds that have both. "
    "Tutorials reckon with T_epoch = N / (R B) (T_comp + T_sync), by which R workers would pay where T_sync / T_comp < "
    f"R {MINUS} 1. That takes computing to be as fast beside R {MINUS} 1 others as alone: the table \u201cpaying\u201d "
    "tells by how much it is slower, and what the formula says with and without that."
)
_REPLAYED = (
    "The messages of a step, as a tracer saw them, were sent again one after another, by the same library in fresh "
    "processes that compute nothing. Where a step shows less of its exchange than they take alone, a part is hidden "
    "behind computing (overlap). Where it shows more, they take longer beside computing (contention). The table "
    "\u201cexchanges\u201d has these times, and why others weren't replayed."
)


def section(material: Material) -> list[blocks.Block]:
    """Who surely pays, and whose exchange is hidden; nothing where nothing tells."""
    replayed = material.exchanges[material.exchanges["reason"] == ""]
    return [
        *_verdicts("When does synchronous SGD pay?", _PAYING, material.paying, material, _batches(material)),
        *_verdicts("The exchange replayed alone", _REPLAYED, replayed, material),
    ]


def _batches(material: Material) -> list[str]:
    """From which batch on those would pay that surely don't: an extrapolation, so in two significant digits."""
    found = material.paying[material.paying["verdict"] == SURELY_DOES_NOT].dropna(subset=["fewest_batch"])
    sentences = []
    for row in found.to_dict("records"):
        who = f"{material.names[row['regime']]}: {row['strategy']} at {row['workers']}"
        if math.isinf(row["fewest_batch"]):
            sentences.append(f"{who} would pay with no batch, since contention is as large as the number of workers.")
        else:
            rows = math.ceil(float(f"{row['fewest_batch']:.2g}"))
            sentences.append(f"{who} would pay from {rows:,} rows per worker on, by extrapolation.")
    return sentences


def _verdicts(
    title: str, about: str, table: pd.DataFrame, material: Material, more: Sequence[str] = ()
) -> list[blocks.Block]:
    """A line for each regime and verdict of a table, another for those that had more threads than cores, then more."""
    items = []
    for regime, name in material.shown.items():
        for (verdict, oversubscribed), rows in table[table["regime"] == regime].groupby(["verdict", "oversubscribed"]):
            how = " with more threads than cores" if oversubscribed else ""
            items.append(f"{name}, {verdict}{how}: {blocks.who(rows)}.")
    return [blocks.heading(title, level=2), blocks.text(about), blocks.items([*items, *more])] if items else []
