"""Recursive halving, then doubling: pairs exchange halves of what they are still adding up, then the sums backwards.

Rabenseifner's algorithm, from Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in
MPICH", 2005. It sends as little as a ring, in as many steps as a tree.

Cost: 2 log2 N alpha + 2 (N - 1) / N S / beta + (N - 1) / N S / gamma; between powers of two those of folding.py more.
"""

from collections.abc import Iterator

from common.contract.algorithms.exchange import Exchange
from common.contract.algorithms.folding import folded


def halving_doubling(rank: int, ranks: int, elements: int) -> Iterator[Exchange]:
    """Yield the exchanges of a rank, for any number of ranks."""
    return folded(_halving_doubling, rank, ranks, elements)


def _halving_doubling(rank: int, ranks: int, elements: int) -> Iterator[Exchange]:
    halvings: list[Exchange] = []
    kept = slice(0, elements)
    distance = ranks // 2
    while distance:
        middle = (kept.start + kept.stop) // 2
        kept, sent = slice(kept.start, middle), slice(middle, kept.stop)
        if rank & distance:
            kept, sent = sent, kept
        partner = rank ^ distance
        halvings.append(Exchange(send_to=partner, sent=sent, receive_from=partner, received=kept, adds=True))
        distance //= 2
    yield from halvings
    for each in reversed(halvings):
        partner = each.send_to
        yield Exchange(send_to=partner, sent=each.received, receive_from=partner, received=each.sent)
