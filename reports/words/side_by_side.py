"""Two folders of records beside each other: what differs between them, and the medians of both."""

import pandas as pd

from common.records.training import Record
from reports import blocks
from reports.tables import summaries
from reports.tables.material import Material
from reports.words import data, machine

# What cells of both folders have in common: all of a regime but the machine, and whose cell it is.
_SAME = ["preset", "scaling", "task", "virtual", "strategy", "workers", "global_batch"]
_ORDER = ["bare_strategy", "options", "hosts", "bandwidth_bits_per_second", "workers"]


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
        f"Here is {here.folder}, there is {there.folder}. These numbers are unpaired and only describe: a "
        "difference may be the machine's, the day's, the versions' or the code's."
    )
    facts = [_facts([*each.records.values()]) for each in (here, there)]
    both = {name: [side.get(name, blocks.DASH) for side in facts] for name in facts[0] | facts[1]}
    differences = [[name, *own] for name, own in both.items() if own[0] != own[1]]
    if not differences:
        explanation += " The records tell of nothing else that differs."
    if rows.empty:
        explanation += " No strategy was measured at the same task with as many workers in both."
    for side, cells in zip(("here", "there"), sides, strict=True):
        if cells.duplicated(_SAME).any():
            explanation += f" Left out, {side}: what was measured on several machines."
    parts = [blocks.heading(f"Beside {there.folder}"), blocks.text(explanation)]
    if differences:
        parts.append(blocks.table(["what differs", "here", "there"], differences, wide={1: 1, 2: 1}))
    for regime, name in material.shown.items():
        own = rows[rows["regime"] == regime].sort_values(_ORDER)
        parts += [blocks.heading(name, level=2), _medians(own)] if len(own) else []
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
    """The cells of one regime in both folders, and the ratio of their medians."""
    oversubscribed = rows["oversubscribed"] | rows["oversubscribed_there"]
    workers = [blocks.world(*each) for each in zip(rows["workers"], oversubscribed, strict=True)]
    shown = rows.assign(workers=workers, ratio=rows["seconds"] / rows["seconds_there"])
    names = {"strategy": "strategy", "workers": "workers"}
    for side, end in (("here", ""), ("there", "_there")):
        times = [f"seconds{end}", f"low_seconds{end}", f"high_seconds{end}"]
        shown[times] *= 1000
        names |= {f"n{end}": f"n {side}", **dict(zip(times, (f"ms {side}", "from", "to"), strict=True))}
        names |= {f"samples_per_second{end}": "samples/s"}
    notes = [
        "Milliseconds per step are medians over n launches, with their 95 % order-statistic intervals, from six "
        "launches on; the ratio, here over there, is that of the medians and has none.",
        *blocks.oversubscribed_note(oversubscribed),
    ]
    return blocks.table([*names.values(), "ratio of ms"], data.in_rows(shown[[*names, "ratio"]]), notes)
