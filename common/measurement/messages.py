"""What the ranks send, and what each must have afterwards, by NumPy: chosen so that nothing wrong can pass."""

import numpy as np

from common.contract.collectives import MEANINGS, Collective, elements_of_rank

_OFFSETS = 4099
"""Places at which a rank's values of a call may begin; a prime, so that steps of any length meet all of them."""


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
        drawn = np.random.default_rng([seed, size_bytes, ranks])
        largest = _largest(self.data_type, ranks)
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


def _largest(data_type: np.dtype, ranks: int) -> int:
    """The largest whole number of which as many as there are ranks add up to one that the type can hold exactly."""
    exact = np.iinfo(data_type).max if data_type.kind in "iu" else 2 ** (np.finfo(data_type).nmant + 1)
    return max(1, min(int(exact), 2**24) // ranks)
