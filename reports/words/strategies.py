"""Strategy by strategy: what each is, and the lines of its script that make it distributed."""

from collections.abc import Sequence

from common.records.training import Record
from reports import blocks
from reports.blocks import Block
from reports.tables.material import Material

_MOST_QUOTED = 14  # Lines of source.


def section(material: Material) -> list[Block]:
    """A part for each strategy that was measured, with all of its labels, in the order of their names."""
    parts: list[Block] = []
    for strategy, launches in material.launches.groupby("bare_strategy"):
        records = [material.results.records[name] for name in launches["launch"]]
        parts += [blocks.heading(str(strategy), level=2), blocks.text(_about(records)), *_quotations(records)]
    return parts


def _about(records: Sequence[Record]) -> str:
    first = records[0]
    said = f"A strategy of {first.family}" if first.family else "A strategy"
    said += f"; {first.framework} computes." if first.framework else "."
    if first.base:
        said += f" Its speed-ups are over {first.base}, which distributes nothing."
    else:
        said += " It distributes nothing: strategies that do are set beside it."
    asynchronous = sorted({record.name for record in records if not record.synchronous})
    if asynchronous:
        said += f" The updates of {blocks.listed(asynchronous)} are asynchronous: a step is one worker's."
    return said


def _quotations(records: Sequence[Record]) -> list[Block]:
    """The lines by which the newest record that has any says what distributes."""
    told = [record for record in records if record.distributed_by]
    if not told:
        return []
    newest = max(told, key=lambda record: record.started_at)
    quoted, left = [], _MOST_QUOTED
    for each in newest.distributed_by:
        lines = each.code.splitlines()
        shown = lines if len(lines) <= left else [*lines[: max(0, left - 1)], "…"]
        quoted.append(blocks.code(newest.script, each.line, shown))
        left -= len(shown)
        if left <= 1:
            break
    return quoted
