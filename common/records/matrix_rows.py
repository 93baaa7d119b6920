"""What a product takes in every way, from which size distributing it pays, and why.

A launch stands for itself by the median over its calls.
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
    """By round the median over that launch's calls of `call_seconds`."""
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
    groups: dict[tuple[str, int, int], list[tuple[MatrixRecord, Cell]]] = {}
    for record in sorted(records.values(), key=lambda record: _KINDS.index(record.kind)):
        for cell in record.cells:
            groups.setdefault((record.way, record.world_size, cell.size), []).append((record, cell))
    pairs: list[tuple[Row, Row | None]] = []
    bases: dict[tuple[str, int], Row] = {}
    for measured in groups.values():
        row, family = _row(measured), measured[0][0].family
        if row.kind == "alone":
            bases[family, row.size] = row
        pairs.append((row, bases.get((family, row.size))))
    return _judged(pairs)


def _row(measured: Sequence[tuple[MatrixRecord, Cell]]) -> Row:
    record, cell = measured[0]
    seconds = {each.repetition: statistics.median(call_seconds(of_launch)) for each, of_launch in measured}
    shares = [part_shares(of_launch) for _, of_launch in measured]
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
    families: dict[int, dict[int, list[float]]] = {}
    for place, (row, base) in enumerate(pairs):
        if base and row.kind in ("rows", "reduction"):
            logs = [*log_ratios(base.launch_seconds, row.launch_seconds).values()]
            if logs:
                families.setdefault(row.size, {})[place] = logs
    judged: dict[int, Judgement] = {}
    for family in families.values():
        judged |= dict(zip(family, judge([*family.values()]), strict=True))
    return [
        replace(row, base_seconds=base.seconds, judgement=judged[place]) if base and place in judged else row
        for place, (row, base) in enumerate(pairs)
    ]


def pays_from(rows_of_way: Sequence[Row]) -> int | None:
    """The smallest measured size of one way from which on the whole interval of its ratio is above 1; None: none."""
    smallest = None
    for row in sorted(rows_of_way, key=lambda row: row.size, reverse=True):
        # Without an interval its ends are NaN, above nothing.
        if row.judgement is None or not row.judgement.low > 1:
            break
        smallest = row.size
    return smallest


def exponent(rows_of_way: Sequence[Row]) -> Exponent | None:
    """How the time of one way's rows grows with their size, by the launches that measured all; None for one size."""
    ordered = sorted(rows_of_way, key=lambda row: row.size)
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


def by_way(measured: Sequence[Row]) -> list[list[Row]]:
    """The rows of each way and number of workers, by size."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in measured:
        groups.setdefault((row.way, row.workers), []).append(row)
    return [sorted(group, key=lambda row: row.size) for group in groups.values()]


def growth_in_words(measured: Sequence[Row]) -> list[str]:
    """Why there is a size from which distributing pays: a sentence for each number of workers."""
    sentences: list[str] = []
    for workers in sorted({row.workers for row in measured if row.judgement}):
        sizes = [row.size for row in measured if row.judgement and row.workers == workers]
        ends = dict.fromkeys([min(sizes), max(sizes)])
        each = [f"{operations(size) / moved_bytes(size, workers):,.0f}" for size in ends]
        sentences.append(
            f"With {workers} workers both ways move 4 n\N{SUPERSCRIPT TWO} (N - 1) (1 + 2 / N) bytes at least for 2 "
            f"n\N{SUPERSCRIPT THREE} operations: {' and '.join(each)} operations for each byte at size "
            f"{' and '.join(map(str, ends))}."
        )
    return sentences


def verdict_in_words(rows_of_way: Sequence[Row]) -> str:
    """From which size on one way pays, and what takes most of its time, in two sentences."""
    ends = rows_of_way if len(rows_of_way) == 1 else [rows_of_way[0], rows_of_way[-1]]
    start, judgement = f"{ends[0].title}, {ends[0].workers} workers:", ends[-1].judgement
    if judgement is None:
        return f"{start} nothing to compare it with was measured."
    longest = [max(row.shares, key=row.shares.__getitem__) for row in ends]
    shares = [f"{100 * row.shares[part]:.0f} % at size {row.size}" for row, part in zip(ends, longest, strict=True)]
    if len({*longest}) == 1:
        parts = f"Its longest part is {longest[0]}: {', '.join(shares)}."
    else:
        both = [f"{part} ({share})" for part, share in zip(longest, shares, strict=True)]
        parts = f"Its longest part is {' and '.join(both)}."
    if judgement.n < FEWEST_LAUNCHES:
        return f"{start} {judgement.n} rounds, and it takes {FEWEST_LAUNCHES} to tell. {parts}"
    size = pays_from(rows_of_way)
    pays = "at no measured size" if size is None else f"from size {size} on"
    row = next(row for row in rows_of_way if row.size == (ends[-1].size if size is None else size))
    judgement = row.judgement or judgement
    ratio = f"{judgement.ratio:.2f} times as fast as alone at {row.size}"
    interval = f"{judgement.low:.2f} to {judgement.high:.2f}, n = {judgement.n}"
    return f"{start} it pays by its own interval {pays} ({ratio}, {interval}). {parts}"
