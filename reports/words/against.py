"""What records stand beside: another folder, unpaired and without a test, or another commit, paired and tested."""

import pandas as pd

from common.records import change
from common.records.training import Record
from reports import blocks
from reports.tables import summaries
from reports.tables.material import Material
from reports.words import data, machine

# What cells of both folders have in common: all of a regime but the machine, and whose cell it is.
_SAME = ["preset", "scaling", "task", "virtual", "strategy", "workers", "global_batch"]
_ORDER = ["bare_strategy", "options", "hosts", "bandwidth_bits_per_second", "workers"]


def another_folder(material: Material) -> list[blocks.Block]:
    """What differs between two folders of records, then the medians of what both measured."""
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


def another_commit(material: Material) -> list[blocks.Block]:
    """Whether this checkout is slower than another commit; nothing where none was compared.

    Raises UserError for a damaged file.
    """
    rows = change.read(material.results.folder)
    if not rows:
        return []
    first = rows[0]
    explanation = (
        f"Every launch of a round was made twice, one right after the other: here with {first.here_in_words()}, there "
        f"with {first.commit_in_words()}. The ratio is how many times as long a step takes here, the geometric mean "
        "over pairs of launches, with the simultaneous 95 % interval of all rows (Bonferroni). Slower and faster are "
        f"said where all of it lies beyond the tolerance of {first.tolerance_in_words()}, within where none of it does."
    )
    shut = change.failure(rows)
    summary = [change.summary(rows), *([f"The gate is shut: {shut}"] if shut else []), first.notes]
    notes = [f"{row.in_words()}: {row.note}." for row in rows if row.note]
    lines = []
    for row in rows:
        seconds = [row.here_seconds, row.there_seconds]
        times = [blocks.DASH if each is None else blocks.milliseconds(each) for each in seconds]
        ratio, exchange = blocks.DASH if row.ratio is None else f"{row.ratio:.3f}", "on" if row.exchange else "off"
        configuration = [row.strategy, str(row.workers), f"{row.preset} {row.scaling}", exchange]
        interval = row.interval_in_words() or blocks.DASH
        lines.append([*configuration, *times, ratio, interval, str(row.n), row.verdict_in_words()])
    columns = ["strategy", "workers", "regime", "exchange", "ms here", "ms there", "ratio", "95 % interval"]
    return [
        blocks.heading(f"Against commit {first.commit[:10]}"),
        blocks.text(" ".join(filter(None, summary))),
        blocks.text(explanation),
        blocks.table([*columns, "n", "verdict"], lines, notes, wide={9: 1}, warned="slower"),
    ]
