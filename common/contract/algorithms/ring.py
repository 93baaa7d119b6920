"""A ring: each rank sends to the next one, a part at a time.

Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009. The input
is cut into N parts. In N - 1 steps each part goes around and is added up on its way. In N - 1 more the sums go around.

Cost: 2 (N - 1) alpha + 2 (N - 1) / N S / beta + (N - 1) / N S / gamma. No algorithm sends less per rank.
"""

from collections.abc import Iterator

from common.contract.algorithms.exchange import Exchange, part


def ring(rank: int, ranks: int, elements: int) -> Iterator[Exchange]:
    """Yield the exchanges of a rank, for any number of ranks."""
    for step in range(2 * (ranks - 1)):
        yield Exchange(
            send_to=(rank + 1) % ranks,
            sent=part(rank - step, ranks, elements),
            receive_from=(rank - 1) % ranks,
            received=part(rank - step - 1, ranks, elements),
            adds=step < ranks - 1,
        )
