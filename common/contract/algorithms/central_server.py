"""A central server: rank 0 adds up what all others send it, and sends each the sum, one after another.

A parameter server without shards: Li et al., "Scaling distributed machine learning with the parameter server", 2014,
divide the weights among several servers, since a single one's link is where everybody waits.

Cost: (N - 1) (2 alpha + 2 S / beta + S / gamma), all of it at rank 0.
"""

from collections.abc import Iterator

from common.contract.algorithms.exchange import Exchange


def central_server(rank: int, ranks: int, elements: int) -> Iterator[Exchange]:
    """Yield the exchanges of a rank, for any number of ranks."""
    whole = slice(0, elements)
    if rank:
        yield Exchange(send_to=0, sent=whole)
        yield Exchange(receive_from=0, received=whole)
        return
    for worker in range(1, ranks):
        yield Exchange(receive_from=worker, received=whole, adds=True)
    for worker in range(1, ranks):
        yield Exchange(send_to=worker, sent=whole)
