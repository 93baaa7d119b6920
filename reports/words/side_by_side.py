"""Two folders of records beside each other: their configurations, and what else differs between them."""

from collections.abc import Mapping, Sequence

import pandas as pd

from common.records.training import Record
from reports import blocks
from reports.blocks import Block
from reports.tables import summaries
from reports.tables.material import Material
from reports.tables.results import Results
from reports.tables.side_by_side import KEYS, beside
from reports.words import machine

_PAIRED = "nox -s compare -- --against-commit REV"


def section(material: Material) -> list[Block]:
    """What differs between two folders, then their cells with exchange; nothing without a second.

    Raises UserError for a damaged task.
    """
    here, there = material.results, material.against
    if there is None:
        return []
    explanation = (
        f"Here is {here.folder}, there is {there.folder}. These numbers are unpaired and only describe: the launches "
        "of both didn't meet the same machine in the same rounds, so nothing is tested, and a difference may be the "
        "machine's, the day's, the versions' or the code's. What two versions of the code differ by is told by pairs "
        f"of launches of the same rounds: {_PAIRED}."
    )
    return [
        blocks.heading(f"Beside {there.folder}"),
        blocks.text(explanation),
        *_differences(here, there),
        *_cells(material.cells, summaries.cells(summaries.launches(there.records))),
    ]


def _differences(here: Results, there: Results) -> list[Block]:
    sides = [_facts([*results.records.values()]) for results in (here, there)]
    rows = []
    for name in dict.fromkeys([*sides[0], *sides[1]]):
        values = [side.get(name, blocks.DASH) for side in sides]
        if values[0] != values[1]:
            rows.append([name, *values])
    if not rows:
        return [blocks.text("The records tell of nothing else that differs.")]
    return [blocks.table(["what differs", "here", "there"], rows, [], left=(0, 1, 2), wide={1: 1, 2: 1})]


def _facts(records: Sequence[Record]) -> dict[str, str]:
    """What launches ran on and with, in words, by what it is; those that ended ok where there are any."""
    told = machine.ended_ok(records)
    packages = sorted({package for record in told for package in record.versions})
    return {
        "launches that ended ok": str(sum(record.status == "ok" for record in records)),
        "machine": machine.distinct(sorted(record.host.name for record in told)),
        **machine.facts(told),
        "presets": machine.distinct(sorted(f"{record.task.preset} {record.scaling}" for record in told)),
        **{name: machine.distinct(sorted(record.versions.get(name, "") for record in told)) for name in packages},
    }


def _cells(cells: pd.DataFrame, others: pd.DataFrame) -> list[Block]:
    both = beside(cells, others)
    if both.empty:
        return [blocks.text("No strategy was measured at the same task with as many workers in both.")]
    columns = ["strategy", "workers"]
    for side in ("here", "there"):
        columns += [f"n {side}", f"ms {side}", "interval", "samples/s"]
    parts = []
    several_tasks = both.groupby(["preset", "scaling"])["task"].nunique() > 1
    for (preset, scaling, task, virtual), rows in both.groupby(["preset", "scaling", "task", "virtual"]):
        regime = f"{preset} {scaling}{', virtual hosts' if virtual else ''}"
        regime += f" ({task})" if several_tasks[preset, scaling] else ""
        shown = [_row(row) for row in rows.to_dict("records")]
        notes = _notes(rows, cells, others)
        parts += [blocks.heading(regime, level=2), blocks.table([*columns, "ratio of ms"], shown, notes, left=(0,))]
    return parts


def _row(row: Mapping[str, object]) -> list[str]:
    oversubscribed = row["oversubscribed_here"] or row["oversubscribed_there"]
    told = [row["strategy"], f"{row['workers']}{'†' if oversubscribed else ''}"]
    for side in ("here", "there"):
        interval = blocks.interval(row[f"low_seconds_{side}"], row[f"high_seconds_{side}"], blocks.milliseconds)
        told += [str(row[f"n_{side}"]), blocks.milliseconds(row[f"seconds_{side}"]), interval]
        told.append(f"{row[f'samples_per_second_{side}']:,.0f}")
    return [*told, blocks.ratio(row["ratio"])]


def _notes(both: pd.DataFrame, cells: pd.DataFrame, others: pd.DataFrame) -> list[str]:
    notes = [
        "Milliseconds per step are medians over n launches, with their 95 % order-statistic intervals; the ratio, here "
        "over there, is that of the medians and has none."
    ]
    if both[["oversubscribed_here", "oversubscribed_there"]].any(axis=None):
        notes.append("† more threads than cores, in one of both at least.")
    notes += blocks.few_note([*both["n_here"], *both["n_there"]], "launches")
    for side, table in (("here", cells), ("there", others)):
        trained = table[table["exchange"]]
        several = int(trained.duplicated(KEYS).sum())
        if several:
            notes.append(f"Left out, {side}: what was measured on several machines.")
    return notes
