"""When synchronous SGD pays: a table for each regime."""

import math
from collections.abc import Sequence
from functools import partial

from reports import blocks
from reports.blocks import DASH, MINUS, Block
from reports.tables.material import Material
from reports.tables.paying import Paying, table

_DEFINITIONS = [
    "Ratio: how many times as long an epoch takes with one worker of the base, the median over pairs of launches "
    "of the same round. It surely pays where the whole interval is above 1, and surely doesn't where it is below. "
    "Each interval covers its median in 95 % of experiments by itself: of many rows some may be wrong.",
    "Contention c: T_comp(R), the step without exchange, over T_comp(1), the base's step. It has all that makes a "
    "worker's computing slower than the base's; the formula assumes 1.",
    f"T_sync: T_step {MINUS} T_comp(R) within rounds, the exposed communication.",
    f"By the formula: whether T_sync / T_comp(R) < R {MINUS} 1. With contention: whether it is less than "
    f"R / c {MINUS} 1. Where only that agrees with what was measured, contention explains the difference.",
    f"Would pay from: B T_sync / (T_comp(1) (R {MINUS} c)) rows per worker, an extrapolation that takes T_comp to "
    "be proportional to the rows, and contention and T_sync to stay. \u201cNone\u201d: contention is R or more.",
]


def section(material: Material) -> list[Block]:
    """Definitions, then a table for each regime; nothing without any cell that might pay."""
    records = material.results.records
    told = material.by_regime(table(material.launches, material.cells, material.steps, records))
    if not told:
        return []
    parts = [blocks.heading("When does synchronous SGD pay?", level=2)]
    about = (
        "Tutorials reckon with T_epoch = N / (R B) (T_comp + T_sync): R workers share the N rows of an epoch, each "
        "with B of them in a step, for which it computes for T_comp and synchronises for T_sync. One worker takes N / "
        f"B T_comp, so R workers would pay where T_sync / T_comp < R {MINUS} 1. The step that this divides is that of "
        "Ben-Nun & Hoefler (ACM Computing Surveys 52 (4), 2019, section 5). Here both epochs are measured, under weak "
        "scaling, and T_comp for R workers and for one."
    )
    parts += [blocks.text(about), blocks.items(_DEFINITIONS)]
    for regime, rows in told.items():
        parts += [blocks.heading(material.names[regime], level=3)] if len(told) > 1 else []
        parts.append(_table(rows))
    return parts


def _table(rows: Sequence[Paying]) -> Block:
    columns = ["strategy", "R", "ratio", "n", "measured", "contention", "T_sync /\nT_comp(R)"]
    columns += ["by the\nformula", "with\ncontention", "would pay\nfrom, rows"]
    # So that what is surely not 1 doesn't look like it.
    write = partial(blocks.fixed, digits=3)
    lines = [
        [
            *[row.strategy, blocks.world(row.workers, row.oversubscribed), blocks.estimate(row.ratio, write)],
            *[str(row.ratio.n if row.ratio else 0), row.measured, blocks.estimate(row.contention)],
            blocks.number(row.sync_share),
            *[row.formula or DASH, row.with_contention or DASH, _batch(row.fewest_batch)],
        ]
        for row in blocks.in_order(rows)
    ]
    counts = [each.n for row in rows for each in (row.ratio, row.contention, row.sync) if each]
    notes = [
        f"B = {rows[0].batch:,} rows per worker. In parentheses the 95 % interval of the median; n: rounds that have "
        "launches of both."
    ]
    notes += blocks.few_note(counts, "rounds")
    if not all(row.sync and row.contention for row in rows):
        notes.append(f"{DASH} no launch without exchange shares a round with the others.")
    notes += blocks.oversubscribed_note(row.oversubscribed for row in rows)
    return blocks.table(columns, lines, notes, left=(0, 4, 7, 8))


def _batch(count: float) -> str:
    """Rows per worker, in two significant digits: an extrapolation has no more."""
    if math.isnan(count):
        return DASH
    if math.isinf(count):
        return "none"
    return f"{max(1, math.ceil(float(f'{count:.2g}'))):,}"
