"""What came of a comparison against another commit: whether this checkout is slower, and by how much at least."""

import math
from collections.abc import Mapping
from pathlib import Path

from common.sessions import regression
from reports import blocks
from reports.blocks import Block


def section(folder: Path) -> list[Block]:
    """What `common.sessions.regression.conclude` wrote into a comparison's folder; nothing where it wrote nothing.

    Raises UserError for a damaged file.
    """
    table = regression.read(folder)
    if table is None or table.empty:
        return []
    about = table.iloc[0]
    here, there = regression.here_in_words(about), regression.commit_in_words(about)
    explanation = (
        f"Every launch of a round was made twice, one right after the other: here with {here}, there with {there}. The "
        "ratio is how many times as long a step takes here, the geometric mean over pairs of launches, with the "
        "simultaneous 95 % interval of all rows with enough of them (Student's t on the pairs' log ratios, "
        "Bonferroni). Slower and faster are said where the whole interval lies beyond the tolerance of "
        f"{regression.share(about)}, within where none of it does."
    )
    shut = regression.failure(table)
    said = [regression.summary(table), *([f"The gate is shut: {shut}"] if shut else []), about["notes"]]
    rows = table.to_dict("records")
    notes = [f"{regression.setting_in_words(row)}: {row['note']}." for row in rows if row["note"]]
    columns = ["strategy", "workers", "regime", "exchange", "ms here", "ms there", "ratio", "95 % interval"]
    return [
        blocks.heading(f"Against commit {about['commit'][:10]}"),
        blocks.text(" ".join(filter(None, said))),
        blocks.text(explanation),
        blocks.table(
            [*columns, "n", "verdict"], [_row(row) for row in rows], notes, (0, 2, 9), {9: 1}, warned="slower"
        ),
    ]


def _row(row: Mapping[str, object]) -> list[str]:
    times = [blocks.milliseconds(row[name]) for name in ("here_seconds", "there_seconds")]
    interval = blocks.DASH
    if not math.isnan(row["low"]):
        interval = f"{row['low']:.3f} to {row['high']:.3f}"
    ratio = blocks.DASH if math.isnan(row["ratio"]) else f"{row['ratio']:.3f}"
    regime = f"{row['preset']} {row['scaling']}"
    exchange = "on" if row["exchange"] else "off"
    setting = [str(row["strategy"]), str(row["workers"]), regime, exchange]
    return [*setting, *times, ratio, interval, str(row["n"]), regression.verdict_in_words(row)]
