"""When synchronous SGD pays, in sentences and two tables for each regime."""

import math
from collections.abc import Mapping

import pandas as pd

from reports import blocks
from reports.blocks import DAGGER, Block
from reports.tables.material import Material
from reports.tables.pairs import CAN_NOT_TELL, NO_ROUND, TOO_FEW
from reports.tables.paying import DOES_NOT_PAY, PAYS, SURELY_DOES_NOT, SURELY_PAYS
from reports.words.factors import PAIRED

_MOST_NAMED = 6
_MINUS = "\N{MINUS SIGN}"
_SOURCE = (
    "Ben-Nun & Hoefler, \u201cDemystifying Parallel and Distributed Deep Learning\u201d, ACM Computing Surveys 52 (4), "
    "2019, section 5"
)


def section(material: Material) -> list[Block]:
    """Definitions, then for each regime sentences and two tables; nothing without any cell that might pay."""
    told = material.by_regime(material.paying)
    if not told:
        return []
    parts = [blocks.heading("When does synchronous SGD pay?", level=2)]
    parts += [blocks.text(_about()), blocks.items(_definitions())]
    for regime, rows in told.items():
        parts += [blocks.heading(material.names[regime], level=3)] if len(told) > 1 else []
        parts += [blocks.items([_sizes(rows), _counted(rows), *_differing(rows)]), *_tables(rows)]
    return parts


def _counted(own: pd.DataFrame) -> str:
    """In how many rows it pays, measured and by the formula."""
    counts = own["measured"].value_counts()
    words = {
        SURELY_PAYS: "pays by its own interval in {}",
        SURELY_DOES_NOT: "doesn't pay by its own interval in {}",
        CAN_NOT_TELL: "can't be told to in {}",
        TOO_FEW: "has too few rounds to tell in {}",
        NO_ROUND: "shares no round with the base in {}",
    }
    said = [text.format(counts[verdict]) for verdict, text in words.items() if verdict in counts]
    rows = f"{len(own)} row{'s' if len(own) > 1 else ''}"
    measured = f"Of {rows} of the table, synchronous SGD {blocks.listed(said)}"
    known = own[own["formula"] != ""]
    if known.empty:
        return f"{measured}. No launch without exchange shares a round, so the formula has no T_comp and no T_sync."
    return f"{measured}. By the formula it pays in {(known['formula'] == PAYS).sum()} of {len(known)}."


def _differing(own: pd.DataFrame) -> list[str]:
    """A sentence for each row of which the measurement surely says otherwise than the formula; of many, the first."""
    wrongly_pays = (own["formula"] == PAYS) & (own["measured"] == SURELY_DOES_NOT)
    wrongly_not = (own["formula"] == DOES_NOT_PAY) & (own["measured"] == SURELY_PAYS)
    differing = own[wrongly_pays | wrongly_not].sort_values("contention", ascending=False)
    said = [f"{_beside(row)} {_why(row)}" for row in differing.head(_MOST_NAMED).to_dict("records")]
    more = len(differing) - len(said)
    return [*said, f"Formula and measurement differ in {more} more of the table."] if more else said


def _beside(row: Mapping[str, object]) -> str:
    """The formula's verdict and the measured one, with their numbers."""
    bound, pays = row["workers"] - 1, row["formula"] == PAYS
    verdict = "would pay" if pays else "wouldn't pay"
    name = f"{row['strategy']} with {blocks.workers(row['workers'])}{f' {DAGGER}' if row['oversubscribed'] else ''}"
    ends = f"{blocks.interval(row['low'], row['high'], _ratio)}, n = {row['n']}"
    return (
        f"{name} {verdict} by the formula, since T_sync / T_comp is {blocks.number(row['sync_share'])} and "
        f"{'less' if pays else 'not less'} than {bound}, but measured it {row['measured']}: the base's epoch is "
        f"{_ratio(row['ratio'])} times ({ends}) as long as its own."
    )


def _why(row: Mapping[str, object]) -> str:
    """Whether contention explains that formula and measurement differ, and what T_comp(R) would have to be."""
    workers = row["workers"]
    if not row["with_contention"]:
        return "No launch without exchange shares a round with the base, so contention isn't known."
    contention = f"T_comp({workers}) is {blocks.ratio(row['contention'])} times T_comp(1)"
    if row["with_contention"] == row["formula"]:
        return f"Contention doesn't explain it: {contention}, and with that the formula says the same."
    most = workers * row["base_seconds"] - row["sync_seconds"]
    if most <= 0:
        return f"Contention explains it: {contention}; T_sync alone is longer than {workers} T_comp(1)."
    needed = f"{blocks.milliseconds(row['compute_seconds'])} ms where it pays below {blocks.milliseconds(most)} ms"
    return f"Contention explains it: {contention}, {needed}."


def _about() -> str:
    return (
        "Tutorials reckon with T_epoch = N / (R B) (T_comp + T_sync): R workers share the N rows of an epoch, each "
        "with B of them in a step, for which it computes for T_comp and synchronises for T_sync. One worker takes "
        f"N / B T_comp, so R workers pay where T_sync / T_comp < R {_MINUS} 1, if T_comp is the same for R workers as "
        f"for one. The data-parallel step that it divides is that of {_SOURCE}. Here both epochs are measured, under "
        "weak scaling, and so is T_comp, for R workers and for one."
    )


def _definitions() -> list[str]:
    return [
        "Epoch: N over the samples per second, the median over launches. The base is the framework's undistributed "
        "one, with B rows in a step.",
        f"Ratio: the base's epoch over that of R workers, {PAIRED}. It surely pays where the whole interval is "
        "above 1, and surely doesn't where it is below. Each interval covers its median in 95 % of experiments by "
        "itself: of many rows some may be wrong.",
        "T_comp(R): the step without exchange of the same strategy. T_comp(1): the step of the base. T_sync: T_step "
        f"{_MINUS} T_comp(R) within rounds, the exposed communication, so without what is hidden behind computing.",
        "Contention: T_comp(R) / T_comp(1), the median over pairs of launches of the same round. It has all that makes "
        "a worker's computing slower than the base's: shared caches, memory and clock rate, and machinery of "
        "distribution's own. The formula assumes 1.",
        f"By the formula: whether T_sync / T_comp(R) < R {_MINUS} 1. With contention c the bound would be "
        f"R / c {_MINUS} 1.",
        f"Would pay from: B T_sync / (T_comp(1) (R {_MINUS} c)) rows per worker. This is an extrapolation: it takes "
        "T_comp to be proportional to the rows, and contention and T_sync to stay as they are. A batch that was tried "
        "has tables of its own. \u201cNone\u201d: contention is R or more, so no batch is large enough.",
    ]


def _sizes(rows: pd.DataFrame) -> str:
    count = rows["rows"].iloc[0]
    total = f"N = {count:,.0f} rows"
    if math.isnan(count):
        total = "N isn't known here, since the training set isn't to be had"
    return f"{total}; B = {rows['batch'].iloc[0]:,} rows per worker."


def _tables(rows: pd.DataFrame) -> list[Block]:
    """What was measured, and what the formula makes of it: a row for each strategy and number of workers."""
    lines, oversubscribed = blocks.in_order(rows), blocks.oversubscribed_note(rows)
    notes = ["Ratio: the base's epoch over that of R workers; n: rounds that have launches of both."]
    notes += blocks.few_note(rows["n"], "rounds")
    columns = ["strategy", "R", "epoch, s", "the base's, s", "ratio", "95 % interval", "n", "synchronous SGD"]
    measured = [_measured(row) for row in lines]
    counts = rows[["sync_n", "contention_n"]]
    notes_of_formula = ["In parentheses the 95 % interval of the median.", *blocks.few_note(counts, "rounds")]
    if (counts == 0).any(axis=None):
        notes_of_formula.append(f"{blocks.DASH} no launch without exchange shares a round with the others.")
    of_formula = ["strategy", "R", "T_comp(1),\nms", "T_comp(R),\nms", "contention", "T_sync, ms"]
    of_formula += ["T_sync /\nT_comp(R)", "by the\nformula", "measured", "would pay\nfrom, rows"]
    by_formula = [_by_formula(row) for row in lines]
    return [
        blocks.table(columns, measured, [*notes, *oversubscribed], left=(0, 7)),
        blocks.table(of_formula, by_formula, [*notes_of_formula, *oversubscribed], left=(0, 7, 8)),
    ]


def _measured(row: Mapping[str, object]) -> list[str]:
    return [
        *[row["strategy"], blocks.world(row)],
        *[blocks.number(row[name]) for name in ("epoch_seconds", "base_epoch_seconds")],
        *[_ratio(row["ratio"]), blocks.interval(row["low"], row["high"], _ratio), str(row["n"]), row["measured"]],
    ]


def _by_formula(row: Mapping[str, object]) -> list[str]:
    contention = [row[name] for name in ("contention", "contention_low", "contention_high")]
    sync = [row[name] for name in ("sync_seconds", "sync_low", "sync_high")]
    return [
        *[row["strategy"], blocks.world(row)],
        *[blocks.milliseconds(row[name]) for name in ("base_seconds", "compute_seconds")],
        *[blocks.with_interval(*contention), blocks.with_interval(*sync, blocks.milliseconds)],
        *[blocks.number(row["sync_share"]), row["formula"] or blocks.DASH, row["measured"]],
        _batch(row["fewest_batch"]),
    ]


def _ratio(value: float) -> str:
    """Three digits after the point, so that what is surely not 1 doesn't look like it; of a small one three in all."""
    return f"{value:.3f}" if value >= 0.1 else blocks.number(value)


def _batch(count: float) -> str:
    """Rows per worker, in two significant digits: an extrapolation has no more."""
    if math.isnan(count):
        return blocks.DASH
    if math.isinf(count):
        return "none"
    return f"{max(1, math.ceil(float(f'{count:.2g}'))):,}"
