"""Recursive doubling: pairs exchange all they have, at twice the distance in each step.

Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", 2005. After step k
each rank has the sum over 2^k ranks. No algorithm has fewer steps, so it is the one for small messages.

Cost: log2 N (alpha + S / beta + S / gamma); between powers of two those of folding.py more.
"""

from collections.abc import Iterator

from common.contract.algorithms.exchange import Exchange
from common.contract.algorithms.folding import folded


def recursive_doubling(rank: int, ranks: int, elements: int) -> Iterator[Exchange]:
    """Yield the exchanges of a rank, for any number of ranks."""
    return folded(_doubling, rank, ranks, elements)


def _doubling(rank: int, ranks: int, elements: int) -> Iterator[Exchange]:
    whole = slice(0, elements)
    distance = 1
    while distance < ranks:
        partner = rank ^ distance
        yield Exchange(send_to=partner, sent=whole, receive_from=partner, received=whole, adds=True)
        distance *= 2
