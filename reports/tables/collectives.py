"""Which library is in front at each collective and size, from paired rounds."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from common.records.collective_rows import Case, Comparison, Row
from common.statistics.intervals import FEWEST_LAUNCHES
from reports.tables.standings import EQUIVALENT, FASTEST, NOT_RANKED, UNDECIDED

Value, Key = TypeVar("Value"), TypeVar("Key")


@dataclass(frozen=True)
class Leader:
    """The library in front at one collective and size, in one world."""

    case: Case
    """Of no library."""
    row: Row
    verdict: str
    """On the library beside all others: fastest, equivalent, can't tell, or not ranked."""
    rivals: tuple[str, ...]
    """The libraries that it is equivalent to, or can't be told from."""
    n: int
    """The fewest rounds that it shares with any other; 0 where it was compared with none."""


def grouped(values: Iterable[Value], key: Callable[[Value], Key]) -> dict[Key, list[Value]]:
    """The values by their keys, both in the order in which they come."""
    found: dict[Key, list[Value]] = {}
    for value in values:
        found.setdefault(key(value), []).append(value)
    return found


def world(case: Case) -> Case:
    """What libraries have to share to be compared at all: the case, of no library."""
    return dataclasses.replace(case, library="", title="")


def leaders(rows: Sequence[Row], compared: Sequence[Comparison]) -> list[Leader]:
    """Return the leader of each collective and size in each world, in the order of `rows`.

    It has won most comparisons, and of several such libraries the shortest median. Libraries with more threads than
    cores lead only where every library has.
    """
    found = []
    for case, size_bytes in dict.fromkeys((world(row.case), row.size_bytes) for row in rows):
        own = [row for row in rows if (world(row.case), row.size_bytes) == (case, size_bytes)]
        here = [each for each in compared if (world(each.row.case), each.row.size_bytes) == (case, size_bytes)]
        found.append(_leader(case, own, here))
    return found


def _leader(case: Case, rows: Sequence[Row], compared: Sequence[Comparison]) -> Leader:
    wins = [each.row.case.library for each in compared if each.judgement.verdict == "faster"]
    first = min(
        (row for row in rows if not row.oversubscribed or all(each.oversubscribed for each in rows)),
        key=lambda row: (-wins.count(row.case.library), row.seconds.median),
    )
    name = first.case.library
    ahead = [(each.other.case.library, each.judgement) for each in compared if each.row.case.library == name]
    behind = [(each.row.case.library, each.judgement) for each in compared if each.other.case.library == name]
    n = min((judgement.n for _, judgement in ahead + behind), default=0)
    if n < FEWEST_LAUNCHES:
        return Leader(case, first, NOT_RANKED, (), n)
    # A library that beats the leader keeps it from being the fastest, as does one that can't be told from it.
    undecided = [rival for rival, judgement in ahead if judgement.verdict == "can't tell"]
    undecided += [rival for rival, judgement in behind if judgement.verdict != "alike"]
    if undecided:
        return Leader(case, first, UNDECIDED, tuple(sorted(undecided)), n)
    equivalent = sorted(rival for rival, judgement in ahead + behind if judgement.verdict == "alike")
    return Leader(case, first, EQUIVALENT if equivalent else FASTEST, tuple(equivalent), n)
