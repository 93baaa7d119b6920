"""Two folders of records beside each other: what differs between them, and the medians of both."""

import pandas as pd

from common.observations import numbers
from common.records.training import Record
from reports import blocks
from reports.tables import summaries
from reports.tables.material import Material
from reports.words import machine

_SAME = ["preset", "scaling", "task", "virtual", "strategy", "workers", "global_batch"]
"""What cells of both folders have in common: all of a regime but the machine, and whose cell it is."""


def section(material: Material) -> list[blocks.Block]:
    """What differs between two folders, then the medians of what both measured; nothing without a second folder."""
    here, there = material.results, material.against
    if there is None:
        return []
    sides = [material.cells, summaries.cells(summaries.launches(there.records))]
    sides = [cells[cells["exchange"]] for cells in sides]
    # Each is on one machine, whichever.
    once = [cells.drop_duplicates(_SAME, keep=False) for cells in sides]
    rows = once[0].merge(once[1], on=_SAME, suffixes=("", "_there"))
    explanation = (
        f"Here is {here.folder}, there is {there.folder}. These numbers are unpaired and only describe: nothing is "
        "tested, and a difference may be the machine's, the day's, the versions' or the code's. Pairs of launches of "
        "the same rounds tell what two versions of the code differ by: nox -s compare -- --against-commit REV."
    )
    parts = [blocks.heading(f"Beside {there.folder}"), blocks.text(explanation)]
    facts = [_facts([*each.records.values()]) for each in (here, there)]
    both = {name: [side.get(name, blocks.DASH) for side in facts] for name in facts[0] | facts[1]}
    differences = [[name, *own] for name, own in both.items() if own[0] != own[1]]
    if differences:
        columns = ["what differs", "here", "there"]
        parts.append(blocks.table(columns, differences, wide={1: 1, 2: 1}))
    else:
        parts.append(blocks.text("The records tell of nothing else that differs."))
    for regime, name in material.shown.items():
        own = rows[rows["regime"] == regime]
        parts += [blocks.heading(name, level=2), _medians(own)] if len(own) else []
    if rows.empty:
        parts.append(blocks.text("No strategy was measured at the same task with as many workers in both."))
    parts += [
        blocks.text(f"Left out, {side}: what was measured on several machines.")
        for side, cells in zip(("here", "there"), sides, strict=True)
        if cells.duplicated(_SAME).any()
    ]
    return parts


def _facts(records: list[Record]) -> dict[str, str]:
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


def _medians(rows: pd.DataFrame) -> blocks.Block:
    columns, cells = ["strategy", "workers"], []
    for side in ("here", "there"):
        columns += [f"n {side}", f"ms {side}", "interval", "samples/s"]
    oversubscribed = rows["oversubscribed"] | rows["oversubscribed_there"]
    told_rows = rows.assign(oversubscribed=oversubscribed).to_dict("records")
    for row in sorted(told_rows, key=lambda row: (blocks.natural(row["strategy"]), row["workers"])):
        told = [row["strategy"], blocks.world(row["workers"], row["oversubscribed"])]
        for side in ("", "_there"):
            ends = (row[f"low_seconds{side}"], row[f"high_seconds{side}"])
            told += [str(row[f"n{side}"]), blocks.milliseconds(row[f"seconds{side}"])]
            told += [numbers.interval(*ends, blocks.milliseconds), f"{row[f'samples_per_second{side}']:,.0f}"]
        cells.append([*told, numbers.ratio(row["seconds"] / row["seconds_there"])])
    notes = [
        "Milliseconds per step are medians over n launches, with their 95 % order-statistic intervals; the ratio, here "
        "over there, is that of the medians and has none.",
        *blocks.oversubscribed_note(oversubscribed),
        *blocks.few_note([*rows["n"], *rows["n_there"]], "launches"),
    ]
    return blocks.table([*columns, "ratio of ms"], cells, notes)
