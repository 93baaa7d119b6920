"""What each strategy is, and which lines of its script distribute."""

from reports import blocks
from reports.tables.material import Material


def section(material: Material) -> list[blocks.Block]:
    """A row for each strategy that was measured; nothing where none was."""
    rows = []
    for strategy, launches in material.launches.groupby("bare_strategy"):
        records = [material.results.records[name] for name in launches["launch"]]
        # Another commit may have moved the lines.
        newest = max(records, key=lambda record: (bool(record.distributed_by), record.started_at))
        lines = ", ".join(str(each.line) for each in newest.distributed_by)
        updates = "synchronous" if all(record.synchronous for record in records) else "asynchronous"
        base = newest.base or "none: distributes nothing"
        place = f"{newest.script}: {lines}" if lines else blocks.DASH
        rows.append([str(strategy), newest.framework or blocks.DASH, base, updates, place])
    if not rows:
        return []
    columns = ["strategy", "computed by", "baseline", "updates", "distributed from line on"]
    return [blocks.heading("The strategies", level=2), blocks.table(columns, rows, [], left=(0, 1, 2, 3, 4))]
