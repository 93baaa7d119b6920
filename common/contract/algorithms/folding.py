"""Algorithms for powers of two among any number of ranks: the ranks beyond the greatest power of two are folded in.

Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", 2005, who fold
neighbours. Here a rank beyond hands its input to the rank as far from the first one, and gets the sum at the end.

Cost, where there are such ranks: 2 alpha + 2 S / beta + S / gamma.
"""

from collections.abc import Iterator

from common.contract.algorithms.exchange import AllReduce, Exchange


def folded(algorithm: AllReduce, rank: int, ranks: int, elements: int) -> Iterator[Exchange]:
    """Yield the exchanges of a rank, where `algorithm` needs a power of two of ranks."""
    whole = slice(0, elements)
    inside = 1 << ranks.bit_length() - 1
    if rank >= inside:
        yield Exchange(send_to=rank - inside, sent=whole)
        yield Exchange(receive_from=rank - inside, received=whole)
        return
    has_guest = rank + inside < ranks
    if has_guest:
        yield Exchange(receive_from=rank + inside, received=whole, adds=True)
    yield from algorithm(rank, inside, elements)
    if has_guest:
        yield Exchange(send_to=rank + inside, sent=whole)
