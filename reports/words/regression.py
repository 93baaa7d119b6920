"""What came of a comparison against another commit: whether this checkout is slower, and by how much at least."""

from common.records import change
from reports import blocks
from reports.tables.material import Material


def section(material: Material) -> list[blocks.Block]:
    """What `common.sessions.regression.conclude` wrote into a comparison's folder; nothing where it wrote nothing.

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
