"""The collectives and their meanings: the elements that each rank sends, and those that each rank receives.

Sizes are counted as nccl-tests counts them (doc/PERFORMANCE.md). The size of a gather or an all-gather is the bytes of
all ranks together. The size of the other collectives is the bytes of one rank, which scatter, reduce-scatter and
all-to-all divide.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

Parts = Sequence[np.ndarray]
"""Each rank's input, in the order of the ranks."""

_OFFSETS = 4099
"""Places at which a rank's values of a call may begin; a prime, so that steps of any length meet all of them."""


class Collective(StrEnum):
    """The collectives by their names on the command line, in the order of tutorials."""

    SEND_RECEIVE = "send_receive"
    BROADCAST = "broadcast"
    SCATTER = "scatter"
    GATHER = "gather"
    ALL_GATHER = "all_gather"
    REDUCE = "reduce"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_REDUCE = "all_reduce"
    ALL_TO_ALL = "all_to_all"
    BARRIER = "barrier"


def _others(ranks: int) -> float:
    return (ranks - 1) / ranks


@dataclass(frozen=True)
class Meaning:
    """The meaning of a collective among N ranks.

    The root is rank 0. send_receive goes from rank 0 to the last rank, or backwards for a message that says so.
    """

    results: Callable[[Parts, int], np.ndarray | None]
    """A rank's result, of all ranks' inputs and the rank; None where the rank gets nothing."""
    bus_factor: Callable[[int], float] = lambda ranks: 1.0
    """nccl-tests' factor from size over seconds to "bus bandwidth", by the number of ranks."""
    is_cut: bool = False
    """Whether the size must be divided among the ranks."""
    parts_in: bool = False
    """Whether a rank's input is one N-th of the size."""


def _total(parts: Parts) -> np.ndarray:
    """The sum, in the parts' own type, which holds the sums of `Messages` without rounding."""
    return np.sum(parts, axis=0, dtype=parts[0].dtype)


def _cut(whole: np.ndarray, rank: int, parts: Parts) -> np.ndarray:
    return np.split(whole, len(parts))[rank]


MEANINGS = {
    Collective.SEND_RECEIVE: Meaning(lambda parts, rank: parts[0] if rank == len(parts) - 1 else None),
    Collective.BROADCAST: Meaning(lambda parts, rank: parts[0]),
    Collective.SCATTER: Meaning(lambda parts, rank: _cut(parts[0], rank, parts), _others, is_cut=True),
    Collective.GATHER: Meaning(
        lambda parts, rank: None if rank else np.concatenate(parts), _others, is_cut=True, parts_in=True
    ),
    Collective.ALL_GATHER: Meaning(lambda parts, rank: np.concatenate(parts), _others, is_cut=True, parts_in=True),
    Collective.REDUCE: Meaning(lambda parts, rank: None if rank else _total(parts)),
    Collective.REDUCE_SCATTER: Meaning(lambda parts, rank: _cut(_total(parts), rank, parts), _others, is_cut=True),
    Collective.ALL_REDUCE: Meaning(lambda parts, rank: _total(parts), lambda ranks: 2 * _others(ranks)),
    Collective.ALL_TO_ALL: Meaning(
        lambda parts, rank: np.concatenate([_cut(part, rank, parts) for part in parts]), _others, is_cut=True
    ),
    Collective.BARRIER: Meaning(lambda parts, rank: None),
}


def elements_of_rank(collective: Collective, size_bytes: int, item_bytes: int, ranks: int) -> int | None:
    """The number of elements of each rank's input; None where the size can't be divided so."""
    meaning = MEANINGS[collective]
    if size_bytes % (item_bytes * (ranks if meaning.is_cut else 1)):
        return None
    return size_bytes // item_bytes // (ranks if meaning.parts_in else 1)


class Messages:
    """What all ranks put into every call of one collective at one size.

    Values are random whole numbers, small enough for any sum over the ranks to be exact in their type. Each rank's
    values of each call begin at a place of their own in one drawn sequence: a result that lacks a rank, has one twice,
    swaps two, is shifted, or is left from the call before differs in almost every element. With `backwards` the last
    rank counts as the first one.
    """

    def __init__(
        self,
        collective: Collective,
        size_bytes: int,
        data_type: str,
        ranks: int,
        seed: int,
        backwards: bool = False,
    ) -> None:
        self.collective, self.size_bytes, self.ranks, self.backwards = collective, size_bytes, ranks, backwards
        self.data_type = np.dtype(data_type)
        elements = elements_of_rank(collective, size_bytes, self.data_type.itemsize, ranks)
        if elements is None:
            raise ValueError(f"{size_bytes} bytes can't be divided among {ranks} ranks")
        self.elements = elements
        """How many each rank puts in."""
        drawn = np.random.default_rng([seed, size_bytes, ranks])
        # As many of the largest as there are ranks add up to a number that the type holds exactly.
        is_whole = self.data_type.kind in "iu"
        exact = np.iinfo(self.data_type).max if is_whole else 2 ** (np.finfo(self.data_type).nmant + 1)
        largest = max(1, min(int(exact), 2**24) // ranks)
        least = 0 if self.data_type.kind == "u" else -largest
        self._sequence = drawn.integers(least, largest + 1, elements + _OFFSETS).astype(self.data_type)
        self._step = int(drawn.integers(1, _OFFSETS))

    def of(self, rank: int, call: int) -> np.ndarray:
        """What a rank puts into a call: a view, which isn't to be written to."""
        first = (call * self.ranks + rank) * self._step % _OFFSETS
        return self._sequence[first : first + self.elements]

    def expected(self, rank: int, call: int) -> np.ndarray | None:
        """What a rank has to have after a call; None where it gets nothing."""
        parts = [self.of(each, call) for each in range(self.ranks)]
        if self.backwards:
            parts, rank = parts[::-1], self.ranks - 1 - rank
        return MEANINGS[self.collective].results(parts, rank)
