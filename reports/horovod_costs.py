"""What Horovod's controllers and settings change, and its own account of where an exchange's time goes."""

import math
from collections.abc import Mapping

import pandas as pd

from common.metrics import FEWEST_LAUNCHES
from common.record import Record
from reports import blocks, tables
from reports.blocks import Block

PHASES = ("negotiation", "queueing", "copying", "all_reduce")
"""The phases of an exchange in Horovod's timeline, as `horovod_timeline` in a record names them."""


def section(
    settings: pd.DataFrame, timelines: pd.DataFrame, cells: pd.DataFrame, names: Mapping[str, str]
) -> list[Block]:
    """Horovod's settings (`tables.against_default`) beside its defaults, and its timelines (`phases`) beside our
    exposed communication; nothing without both. `names` are those of the regimes.
    """
    parts = [*_settings(settings, names), *_phases(timelines, tables.time_split(cells), names)]
    return [blocks.heading("Horovod: controllers, settings and timeline"), *parts] if parts else []


def phases(launches: pd.DataFrame, records: Mapping[str, Record]) -> pd.DataFrame:
    """One row per cell of several workers whose launches have a timeline: seconds per step in each of PHASES, medians
    over n launches.
    """
    keys = ["regime", "workers", "strategy"]
    rows = []
    exchanged = launches[launches["exchange"].astype(bool) & (launches["workers"] > 1)] if len(launches) else launches
    for key, group in exchanged.groupby(keys):
        timelines = [records[cell].horovod_timeline for cell in group["cell"] if records[cell].horovod_timeline]
        if timelines:
            per_step = [{name: line[f"{name}_seconds"] / line["steps"] for name in PHASES} for line in timelines]
            medians = pd.DataFrame(per_step).median().to_dict()
            rows.append(dict(zip(keys, key, strict=True)) | {"n": len(timelines)} | medians)
    return pd.DataFrame(rows, columns=[*keys, "n", *PHASES])


def _settings(table: pd.DataFrame, names: Mapping[str, str]) -> list[Block]:
    if table.empty:
        return []
    explanation = (
        "The same program with other settings of Horovod, or over MPI, beside its own over Gloo. The factor is how "
        "many times as long a step takes: the median over pairs of launches of the same round, with its "
        "order-statistic interval over those pairs. Below 1 the setting pays. Those marked as "
        "other maths compute something else."
    )
    rows = []
    for row in table.sort_values(["first", "regime", "workers", "factor"]).to_dict("records"):
        interval = blocks.DASH
        if not math.isnan(row["low"]):
            interval = f"{blocks.ratio(row['low'])} to {blocks.ratio(row['high'])}"
        rows.append(
            [
                *[row["second"], str(row["workers"]), names[row["regime"]]],
                *[blocks.number(1000 * row["second_seconds"]), blocks.number(1000 * row["first_seconds"])],
                *[blocks.ratio(row["factor"]), interval, str(row["pairs"])],
            ]
        )
    columns = ["with settings", "workers", "regime", "ms per step", "default, ms", "factor", "95 % interval"]
    few = [f"No interval is given for fewer than {FEWEST_LAUNCHES} pairs."]
    notes = few if (table["pairs"] < FEWEST_LAUNCHES).any() else []
    return [
        blocks.heading("Settings", level=2),
        blocks.text(explanation),
        blocks.table([*columns, "pairs (n)"], rows, notes, left=(0, 2)),
    ]


def _phases(table: pd.DataFrame, split: pd.DataFrame, names: Mapping[str, str]) -> list[Block]:
    if table.empty:
        return []
    explanation = (
        "Horovod's own account of a step, from its timeline: how long at least one gradient was being negotiated (from "
        "the first worker that had it ready to the agreement that all have), was waiting for its turn after that, was "
        "copied into or out of the fusion buffer, and was exchanged. Negotiation overlaps with computing, so it can be "
        "longer than the exposed communication of the same launches, T_step less T_comp, which stands beside it."
    )
    exposed = {
        (row["regime"], row["strategy"], row["workers"]): row["exposed_seconds"] for row in split.to_dict("records")
    }
    rows = [
        [
            *[row["strategy"], str(row["workers"]), names[row["regime"]], str(row["n"])],
            *[blocks.number(1000 * row[name]) for name in PHASES],
            blocks.number(1000 * exposed.get((row["regime"], row["strategy"], row["workers"]), float("nan"))),
        ]
        for row in table.sort_values(["strategy", "regime", "workers"]).to_dict("records")
    ]
    columns = ["strategy", "workers", "regime", "n", "negotiation, ms", "queueing, ms", "copying, ms"]
    return [
        blocks.heading("Horovod's own account", level=2),
        blocks.text(explanation),
        blocks.table([*columns, "all-reduce, ms", "exposed, ms"], rows, [], left=(0, 2)),
    ]
