"""A binomial tree: sums go up to rank 0 and come down again, and all that a rank has goes at once.

Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", 2005: a reduction,
then a broadcast. A rank's parent is the rank without its lowest bit that is 1.

Cost: ceil(log2 N) (2 alpha + 2 S / beta + S / gamma).
"""

from collections.abc import Iterator

from common.contract.algorithms.exchange import Exchange


def binomial_tree(rank: int, ranks: int, elements: int) -> Iterator[Exchange]:
    """Yield the exchanges of a rank, for any number of ranks."""
    whole = slice(0, elements)
    children: list[int] = []
    distance = 1
    while distance < ranks and not rank & distance:
        if rank + distance < ranks:
            children.append(rank + distance)
        distance *= 2
    for child in children:
        yield Exchange(receive_from=child, received=whole, adds=True)
    if rank:
        yield Exchange(send_to=rank - distance, sent=whole)
        yield Exchange(receive_from=rank - distance, received=whole)
    for child in reversed(children):
        yield Exchange(send_to=child, sent=whole)
