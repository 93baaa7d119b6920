"""Which library is the fastest at each collective and size, from paired rounds."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from common.records.collective_rows import Case, Comparison, Row
from common.statistics.intervals import FEWEST_LAUNCHES

FASTEST, EQUIVALENT, UNDECIDED, TOO_FEW_ROUNDS, ALONE, OVERSUBSCRIBED = (
    *("fastest", "equivalent", "can't tell", "too few rounds"),
    *("alone", "oversubscribed"),
)
"""What the tests say of the library with the most wins, then the shortest median, beside all others."""


@dataclass(frozen=True)
class Leader:
    """The library in front at one collective and size, in one world."""

    case: Case
    """Of no library."""
    row: Row
    verdict: str
    rivals: tuple[str, ...]
    """The libraries that `verdict` is about: those that it is equivalent to, or can't be told from."""
    n: int
    """The fewest rounds that it shares with any other; 0 where it was compared with none."""


def world(case: Case) -> Case:
    """What libraries have to share to be compared at all: the case, of no library."""
    return dataclasses.replace(case, library="", title="")


def leaders(rows: Sequence[Row], compared: Sequence[Comparison]) -> list[Leader]:
    """Return the leader of each collective and size in each world, in the order of `rows`.

    Libraries with more threads than cores lead only where every library has.
    """
    found = []
    for case, size_bytes in dict.fromkeys((world(row.case), row.size_bytes) for row in rows):
        own = [row for row in rows if (world(row.case), row.size_bytes) == (case, size_bytes)]
        here = [each for each in compared if (world(each.row.case), each.row.size_bytes) == (case, size_bytes)]
        found.append(_leader(case, own, here))
    return found


def _leader(case: Case, rows: Sequence[Row], compared: Sequence[Comparison]) -> Leader:
    fitting = [row for row in rows if not row.oversubscribed]
    wins = [each.row.case.library for each in compared if each.judgement.verdict == "faster"]
    first = min(fitting or rows, key=lambda row: (-wins.count(row.case.library), row.seconds.median))
    if not fitting:
        return Leader(case, first, OVERSUBSCRIBED, (), 0)
    library = first.case.library
    beside = {
        other.case.library: each.judgement
        for each in compared
        for one, other in ((each.row, each.other), (each.other, each.row))
        if one.case.library == library
    }
    if not beside:
        return Leader(case, first, ALONE, (), 0)
    n = min(judgement.n for judgement in beside.values())
    if n < FEWEST_LAUNCHES:
        return Leader(case, first, TOO_FEW_ROUNDS, (), n)
    beaten_by = {
        each.row.case.library for each in compared if each.judgement.verdict == "faster" and each.other is first
    }
    undecided = [name for name, judgement in beside.items() if judgement.verdict == "can't tell" or name in beaten_by]
    equivalent = [name for name, judgement in beside.items() if judgement.verdict == "alike"]
    if undecided:
        return Leader(case, first, UNDECIDED, tuple(sorted(undecided)), n)
    return Leader(case, first, EQUIVALENT if equivalent else FASTEST, tuple(sorted(equivalent)), n)
