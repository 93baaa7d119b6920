"""Two folders of records beside each other: what differs between them, and the medians of both."""

from collections.abc import Iterable

from common.records.training import Record
from reports import blocks
from reports.blocks import Block
from reports.tables import side_by_side, summaries
from reports.tables.material import Material
from reports.tables.side_by_side import SideBySide
from reports.words import machine


def section(material: Material) -> list[Block]:
    """What differs between two folders, then the medians of what both measured; nothing without a second folder."""
    here, there = material.results, material.against
    if there is None:
        return []
    others = summaries.cells(summaries.launches(there.records))
    rows = blocks.in_order(side_by_side.table(material.cells, others))
    explanation = (
        f"Here is {here.folder}, there is {there.folder}. These numbers are unpaired and only describe: the launches "
        "of both didn't meet the same machine in the same rounds, so nothing is tested, and a difference may be the "
        "machine's, the day's, the versions' or the code's. Pairs of launches of the same rounds tell what two "
        "versions of the code differ by: nox -s compare -- --against-commit REV."
    )
    parts = [blocks.heading(f"Beside {there.folder}"), blocks.text(explanation)]
    parts.append(_differences(here.records.values(), there.records.values()))
    for regime, own in material.by_regime(rows).items():
        parts += [blocks.heading(material.names[regime], level=2), _medians(own)]
    if not rows:
        parts.append(blocks.text("No strategy was measured at the same task with as many workers in both."))
    parts += [
        blocks.text(f"Left out, {side}: what was measured on several machines.")
        for side, cells in (("here", material.cells), ("there", others))
        if len(side_by_side.on_several_machines(cells))
    ]
    return parts


def _differences(here: Iterable[Record], there: Iterable[Record]) -> Block:
    sides = [_facts([*here]), _facts([*there])]
    both = {name: [side.get(name, blocks.DASH) for side in sides] for name in sides[0] | sides[1]}
    rows = [[name, *facts] for name, facts in both.items() if facts[0] != facts[1]]
    if not rows:
        return blocks.text("The records tell of nothing else that differs.")
    return blocks.table(["what differs", "here", "there"], rows, [], left=(0, 1, 2), wide={1: 1, 2: 1})


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


def _medians(rows: list[SideBySide]) -> Block:
    columns, cells = ["strategy", "workers"], []
    for side in ("here", "there"):
        columns += [f"n {side}", f"ms {side}", "interval", "samples/s"]
    for row in rows:
        told = [row.strategy, blocks.world(row.workers, row.oversubscribed)]
        for cell in (row.here, row.there):
            interval = blocks.interval(cell["low_seconds"], cell["high_seconds"], blocks.milliseconds)
            told += [str(cell["n"]), blocks.milliseconds(cell["seconds"]), interval]
            told.append(f"{cell['samples_per_second']:,.0f}")
        cells.append([*told, blocks.ratio(row.here["seconds"] / row.there["seconds"])])
    notes = [
        "Milliseconds per step are medians over n launches, with their 95 % order-statistic intervals; the ratio, here "
        "over there, is that of the medians and has none.",
        *blocks.oversubscribed_note(row.oversubscribed for row in rows),
        *blocks.few_note([cell["n"] for row in rows for cell in (row.here, row.there)], "launches"),
    ]
    return blocks.table([*columns, "ratio of ms"], cells, notes, left=(0,))
