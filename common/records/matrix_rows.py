"""What the records of a session say: what a product takes in every way, from which size distributing it pays, and why.

Computed is what the launches' medians say: a launch stands for itself by the median over its calls.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from common.records.matrix_products import Cell, MatrixRecord, call_seconds, part_shares
from common.statistics import fit
from common.statistics.fit import Estimate
from common.statistics.intervals import FEWEST_LAUNCHES, Interval, median_interval
from common.statistics.paired import Judgement, judge, log_ratios

ITEM_BYTES = 4
"""Of an element in float32."""

_KINDS = ("naive", "alone", "rows", "reduction")
"""In the order in which introductions tell of them."""


@dataclass(frozen=True)
class Row:
    """One size in one way: medians over the launches."""

    way: str
    title: str
    kind: str
    colors: tuple[str, ...]
    """What its family is drawn in."""
    workers: int
    size: int
    """Rows and columns n of the matrices."""
    launch_seconds: dict[int, float]
    """By round the median over that launch's calls of what passes from when the last rank begins until rank 0 has C."""
    seconds: Interval
    """Their median."""
    shares: dict[str, float]
    """Of that time by part, on rank 0: means over the launches, which add up to 1."""
    oversubscribed: bool
    """Whether any of the launches had more threads than cores."""
    base_seconds: Interval | None = None
    """What the same family's product takes alone, by its launches of the same rounds; None where there is none."""
    judgement: Judgement | None = None
    """Its `ratio` is how many times as fast as alone this is."""


@dataclass(frozen=True)
class Exponent:
    """The slope of log seconds over log size: p, where a product of size n takes about n^p."""

    title: str
    sizes: tuple[int, ...]
    launches: int
    value: Estimate


def rows(records: Mapping[str, MatrixRecord]) -> list[Row]:
    """One row for each way, number of workers and size, beside what its base takes: one process first."""
    found: dict[tuple[str, int, int], list[tuple[MatrixRecord, Cell]]] = {}
    for record in sorted(records.values(), key=lambda record: _KINDS.index(record.kind)):
        for cell in record.cells:
            found.setdefault((record.way, record.world_size, cell.size), []).append((record, cell))
    bare = [_row(measured) for measured in found.values()]
    bases = {
        (record.family, cell.size): row
        for row, measured in zip(bare, found.values(), strict=True)
        for record, cell in measured[:1]
        if row.kind == "alone"
    }
    families = [measured[0][0].family for measured in found.values()]
    beside = [bases.get((family, row.size)) for family, row in zip(families, bare, strict=True)]
    return _judged(list(zip(bare, beside, strict=True)))


def _row(measured: Sequence[tuple[MatrixRecord, Cell]]) -> Row:
    record, cell = measured[0]
    seconds = {each.repetition: statistics.median(call_seconds(own)) for each, own in measured}
    shares = [part_shares(own) for _, own in measured]
    return Row(
        way=record.way,
        title=record.title,
        kind=record.kind,
        colors=tuple(record.colors),
        workers=record.world_size,
        size=cell.size,
        launch_seconds=seconds,
        seconds=median_interval([*seconds.values()]),
        shares={part: statistics.fmean(each[part] for each in shares) for part in cell.parts},
        oversubscribed=any(each.oversubscribed for each, _ in measured),
    )


def _judged(pairs: Sequence[tuple[Row, Row | None]]) -> list[Row]:
    """Judge every distributed row against its base, by launches of the same rounds.

    The family over which the errors are held down is all ways and numbers of workers at one size. Over the sizes there
    is nothing to correct: that a way pays from a size on is said only where it pays at every larger one, so the sizes
    are tested one after the other, from the largest down, and the first that fails ends it (Marcus, Peritz & Gabriel,
    "On closed testing procedures with special reference to ordered analysis of variance", 1976).
    """
    logs = {}
    for place, (row, base) in enumerate(pairs):
        if base and row.kind in ("rows", "reduction"):
            logs[place] = [*log_ratios(base.launch_seconds, row.launch_seconds).values()]
    judged = {}
    for size in dict.fromkeys(row.size for row, _ in pairs):
        family = [place for place, of_rounds in logs.items() if of_rounds and pairs[place][0].size == size]
        judged |= dict(zip(family, judge([logs[place] for place in family]), strict=True))
    return [
        replace(row, base_seconds=base.seconds, judgement=judged[place]) if base and place in judged else row
        for place, (row, base) in enumerate(pairs)
    ]


def pays_from(own: Sequence[Row]) -> int | None:
    """The smallest measured size of one way's rows from which on it beats its base by its own interval; None: none.

    It beats it where the whole interval of the ratio is above 1, which takes six rounds.
    """
    found = None
    for row in sorted(own, key=lambda row: row.size, reverse=True):
        # Without an interval its ends are NaN, above nothing.
        if row.judgement is None or not row.judgement.low > 1:
            break
        found = row.size
    return found


def exponent(own: Sequence[Row]) -> Exponent | None:
    """How the time of one way's rows grows with their size, by the launches that measured all; None for one size."""
    ordered = sorted(own, key=lambda row: row.size)
    whole = sorted(set.intersection(*(set(row.launch_seconds) for row in ordered)))
    sizes = tuple(row.size for row in ordered)
    value = fit.exponent(sizes, np.array([[row.launch_seconds[each] for each in whole] for row in ordered]))
    return value and Exponent(ordered[0].title, sizes, len(whole), value)


def moved_bytes(size: int, workers: int) -> float:
    """What has to go from process to process at least for one product over N workers: 4 n^2 (N - 1) (1 + 2 / N) bytes.

    By rows: all ranks' rows of A but rank 0's, (N - 1) / N of it, B to each of the others, and as many rows of C as of
    A. By reduction as many of A and of B, and each other rank's product. It is the same sum.
    """
    return ITEM_BYTES * size**2 * (workers - 1) * (1 + 2 / workers)


def operations(size: int) -> int:
    """Floating point operations of a product: n^3 multiplications and as many additions."""
    return 2 * size**3


def by_way(found: Sequence[Row]) -> list[list[Row]]:
    """The rows of each way and number of workers, by size."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in found:
        groups.setdefault((row.way, row.workers), []).append(row)
    return [sorted(own, key=lambda row: row.size) for own in groups.values()]


def growth_in_words(found: Sequence[Row]) -> list[str]:
    """Why there is a size from which distributing pays: a sentence for each number of workers."""
    said = []
    for workers in sorted({row.workers for row in found if row.judgement}):
        ends = [pick(row.size for row in found if row.judgement and row.workers == workers) for pick in (min, max)]
        each = [f"{operations(size) / moved_bytes(size, workers):,.0f}" for size in dict.fromkeys(ends)]
        said.append(
            f"With {workers} workers both ways move 4 n\N{SUPERSCRIPT TWO} (N - 1) (1 + 2 / N) bytes at least for 2 "
            f"n\N{SUPERSCRIPT THREE} operations: {' and '.join(each)} operations for each byte at size "
            f"{' and '.join(map(str, dict.fromkeys(ends)))}."
        )
    return said


def verdict_in_words(own: Sequence[Row]) -> str:
    """From which size on one way pays, and what takes most of its time, in two sentences."""
    least, largest = own[0], own[-1]
    start = f"{own[0].title}, {own[0].workers} workers:"
    if largest.judgement is None:
        return f"{start} nothing to compare it with was measured."
    if largest.judgement.n < FEWEST_LAUNCHES:
        return f"{start} {largest.judgement.n} rounds, and it takes {FEWEST_LAUNCHES} to tell. {_most(least, largest)}"
    size = pays_from(own)
    if size is None:
        return f"{start} it pays by its own interval at no measured size ({_ratio(largest)}). {_most(least, largest)}"
    row = next(row for row in own if row.size == size)
    return f"{start} it pays by its own interval from size {size} on ({_ratio(row)}). {_most(least, largest)}"


def _ratio(row: Row) -> str:
    told = row.judgement
    assert told, "Its size has a judgement."
    return f"{told.ratio:.2f} times as fast as alone at {row.size}, {told.low:.2f} to {told.high:.2f}, n = {told.n}"


def _most(least: Row, largest: Row) -> str:
    ends = [least] if least.size == largest.size else [least, largest]
    longest = [max(row.shares, key=row.shares.__getitem__) for row in ends]
    shares = [f"{100 * row.shares[part]:.0f} % at size {row.size}" for row, part in zip(ends, longest, strict=True)]
    if len({*longest}) == 1:
        return f"Its longest part is {longest[0]}: {', '.join(shares)}."
    said = [f"{part} ({share})" for part, share in zip(longest, shares, strict=True)]
    return f"Its longest part is {' and '.join(said)}."
