"""When synchronous SGD pays, in sentences and two tables for each regime."""

import math
from collections.abc import Callable, Mapping

import pandas as pd

from common.statistics.intervals import FEWEST_LAUNCHES
from reports import blocks
from reports.blocks import Block
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


def finding(found: pd.DataFrame, regime: str) -> list[str]:
    """What the rows of `table` of a regime come to: who pays, where the formula errs and why, and what might pay.

    Where a batch that might pay was tried, it is another regime of `table`: then it's said what came of it.
    """
    own = found[found["regime"] == regime]
    return [*_counted(own), *_differing(own), *_smallest(own, found)] if len(own) else []


def section(material: Material) -> list[Block]:
    """Definitions, then for each regime sentences and two tables; nothing without any cell that might pay."""
    found, names = material.paying, material.shown
    told = {regime: found[found["regime"] == regime] for regime in names}
    told = {regime: rows for regime, rows in told.items() if len(rows)}
    if not told:
        return []
    parts = [blocks.heading("When does synchronous SGD pay?", level=2)]
    parts += [blocks.text(_about()), blocks.items(_definitions(_is_any_tried(found, found)))]
    for regime, rows in told.items():
        parts += [blocks.heading(names[regime], level=3)] if len(told) > 1 else []
        parts += [blocks.items([_sizes(rows), *finding(found, regime)]), *_tables(rows, found)]
    return parts


def _counted(own: pd.DataFrame) -> list[str]:
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
        return [f"{measured}. No launch without exchange shares a round, so the formula has no T_comp and no T_sync."]
    return [f"{measured}. By the formula it pays in {(known['formula'] == PAYS).sum()} of {len(known)}."]


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
    ends = f"{_ratio(row['low'])} to {_ratio(row['high'])}, n = {row['n']}"
    return (
        f"{_name(row)} {verdict} by the formula, since T_sync / T_comp is {blocks.number(row['sync_share'])} and "
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


def _smallest(own: pd.DataFrame, found: pd.DataFrame) -> list[str]:
    """Who of those that don't surely pay would with the fewest rows, what came of trying, and who with no number."""
    others = own[own["measured"] != SURELY_PAYS]
    might = _might_pay(own).sort_values("fewest_batch", kind="stable").to_dict("records")
    said = []
    if might:
        row, tried = might[0], _tried(might[0], found)
        said.append(
            f"Of those that don't surely pay, {_name(row)} would with the fewest rows: by this account from about "
            f"{_batch(row['fewest_batch'])} rows per worker on, {_extrapolated(row, tried)}"
        )
        said += _of_others([row for row in might[1:] if len(_tried(row, found))], found)
    never = others[others["fewest_batch"] == math.inf]
    if len(never):
        who = [_name(row) for row in never.to_dict("records")]
        named = blocks.listed(who) if len(who) <= _MOST_NAMED else f"{len(who)} rows of the table"
        said.append(f"By this account no batch is large enough, since contention is R or more: {named}.")
    return said


def _of_others(rows: list[dict[str, object]], found: pd.DataFrame) -> list[str]:
    """What came of the batches that were tried for all but the strategy with the fewest rows; of many, the first."""
    named = rows[: _MOST_NAMED - 1]
    said = [
        f"{_name(row)} would pay from about {_batch(row['fewest_batch'])} rows per worker on, "
        f"{_extrapolated(row, _tried(row, found))}"
        for row in named
    ]
    more = len(rows) - len(named)
    return [*said, f"What was tried of {more} more is in the tables of those batches."] if more else said


def _might_pay(own: pd.DataFrame) -> pd.DataFrame:
    """The rows that don't surely pay, and would by the account with more rows per worker than they had."""
    more = (own["fewest_batch"] > own["batch"]) & (own["fewest_batch"] < math.inf)
    return own[more & (own["measured"] != SURELY_PAYS)]


def _tried(row: Mapping[str, object], found: pd.DataFrame) -> pd.DataFrame:
    """The rows of `found` that tell of `row` with larger batches; none where none is as large as the account's."""
    same = (found["strategy"] == row["strategy"]) & (found["workers"] == row["workers"])
    same &= (found["base"] == row["base"]) & (found["batch"] > row["batch"])
    same &= found["regime_of_any_batch"] == row["regime_of_any_batch"]
    larger = found[same].sort_values("batch")
    # Who tries it may round as the sentence does.
    account = min(row["fewest_batch"], float(f"{row['fewest_batch']:.2g}"))
    return larger if (larger["batch"] >= account).any() else larger.iloc[:0]


def _is_any_tried(rows: pd.DataFrame, found: pd.DataFrame) -> bool:
    return any(len(_tried(row, found)) for row in _might_pay(rows).to_dict("records"))


def _extrapolated(row: Mapping[str, object], tried: pd.DataFrame) -> str:
    """The end of a sentence on an account, and what came of trying it."""
    more = ", and R times that is more than the training set has" if _is_more_than_all(row) else ""
    begin = f"an extrapolation from {row['batch']:,}"
    if tried.empty:
        return f"{begin} that wasn't tried{more}."
    return " ".join([f"{begin}{more}.", *[_outcome(each) for each in tried.to_dict("records")]])


def _outcome(row: Mapping[str, object]) -> str:
    """What was measured at a batch that was tried."""
    words = {
        SURELY_PAYS: "it surely pays",
        SURELY_DOES_NOT: "it surely doesn't pay",
        CAN_NOT_TELL: "it can't be told whether it pays",
        TOO_FEW: "there were too few rounds to tell whether it pays",
    }
    tried = f"Tried at {row['batch']:,}"
    if row["measured"] == NO_ROUND:
        return f"{tried}, it shares no round with the base."
    between = "" if math.isnan(row["low"]) else f"{_ratio(row['low'])} to {_ratio(row['high'])}, "
    ends = f"{between}n = {row['n']}"
    times = f"{_ratio(row['ratio'])} times ({ends}) as long as its own"
    return f"{tried}, {words[row['measured']]}: the base's epoch is {times}."


def _is_more_than_all(row: Mapping[str, object]) -> bool:
    return row["workers"] * row["fewest_batch"] > row["rows"]


def _name(row: Mapping[str, object]) -> str:
    return f"{row['strategy']} with {blocks.workers(row['workers'])}{' †' if row['oversubscribed'] else ''}"


def _about() -> str:
    return (
        "Tutorials reckon with T_epoch = N / (R B) (T_comp + T_sync): R workers share the N rows of an epoch, each "
        "with B of them in a step, for which it computes for T_comp and synchronises for T_sync. One worker takes "
        f"N / B T_comp, so R workers pay where T_sync / T_comp < R {_MINUS} 1, if T_comp is the same for R workers as "
        f"for one. The data-parallel step that it divides is that of {_SOURCE}. Here both epochs are measured, under "
        "weak scaling, and so is T_comp, for R workers and for one."
    )


def _definitions(is_any_tried: bool) -> list[str]:
    tried = "" if is_any_tried else " that wasn't tried"
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
        f"Would pay from: B T_sync / (T_comp(1) (R {_MINUS} c)) rows per worker. This is an extrapolation{tried}: it "
        "takes T_comp to be proportional to the rows, and contention and T_sync to stay as they are.",
    ]


def _sizes(rows: pd.DataFrame) -> str:
    count = rows["rows"].iloc[0]
    total = f"N = {count:,.0f} rows"
    if math.isnan(count):
        total = "N isn't known here, since the training set isn't to be had"
    return f"{total}; B = {rows['batch'].iloc[0]:,} rows per worker."


def _tables(rows: pd.DataFrame, found: pd.DataFrame) -> list[Block]:
    """What was measured, and what the formula makes of it: a row for each strategy and number of workers."""
    ordered = rows.assign(order=[blocks.natural(name) for name in rows["strategy"]]).sort_values(["order", "workers"])
    lines, few = ordered.to_dict("records"), f"No interval is given for fewer than {FEWEST_LAUNCHES} rounds."
    oversubscribed = (
        ["† more threads than cores: shows that it works, not how it scales."] if rows["oversubscribed"].any() else []
    )
    notes = ["Ratio: the base's epoch over that of R workers; n: rounds that have launches of both."]
    notes += [few, *oversubscribed] if rows["n"].between(1, FEWEST_LAUNCHES - 1).any() else oversubscribed
    columns = ["strategy", "R", "epoch, s", "the base's, s", "ratio", "95 % interval", "n", "synchronous SGD"]
    measured = blocks.table(columns, [_measured(row) for row in lines], notes, left=(0, 7))
    tried = (
        "; where it was tried, a sentence above or a table of that batch says so"
        if _is_any_tried(rows, found)
        else ", and wasn't tried"
    )
    extrapolated = f" The last column is extrapolated{tried}." if rows["fewest_batch"].notna().any() else ""
    notes = [f"In parentheses the 95 % interval of the median.{extrapolated}"]
    counts = rows[["sync_n", "contention_n"]]
    notes += [few] if ((counts > 0) & (counts < FEWEST_LAUNCHES)).any(axis=None) else []
    if (counts == 0).any(axis=None):
        notes.append(f"{blocks.DASH} no launch without exchange shares a round with the others.")
    columns = ["strategy", "R", "T_comp(1),\nms", "T_comp(R),\nms", "contention", "T_sync, ms", "T_sync /\nT_comp(R)"]
    columns += ["by the\nformula", "measured", "would pay\nfrom, rows"]
    return [
        measured,
        blocks.table(columns, [_by_formula(row) for row in lines], [*notes, *oversubscribed], left=(0, 7, 8)),
    ]


def _who(row: Mapping[str, object]) -> list[str]:
    return [row["strategy"], f"{row['workers']}{'†' if row['oversubscribed'] else ''}"]


def _measured(row: Mapping[str, object]) -> list[str]:
    interval = blocks.DASH if math.isnan(row["low"]) else f"{_ratio(row['low'])} to {_ratio(row['high'])}"
    epochs = [blocks.number(row[name]) for name in ("epoch_seconds", "base_epoch_seconds")]
    return [*_who(row), *epochs, _ratio(row["ratio"]), interval, str(row["n"]), row["measured"]]


def _by_formula(row: Mapping[str, object]) -> list[str]:
    milliseconds = blocks.milliseconds
    return [
        *[*_who(row), *[milliseconds(row[name]) for name in ("base_seconds", "compute_seconds")]],
        _with_interval(blocks.ratio, row["contention"], row["contention_low"], row["contention_high"]),
        _with_interval(milliseconds, row["sync_seconds"], row["sync_low"], row["sync_high"]),
        *[blocks.number(row["sync_share"]), row["formula"] or blocks.DASH, row["measured"]],
        _batch(row["fewest_batch"]),
    ]


def _with_interval(in_words: Callable[[float], str], value: float, low: float, high: float) -> str:
    number = in_words(value)
    return number if math.isnan(low) else f"{number}\n({in_words(low)} to {in_words(high)})"


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
