"""The algorithms of an all-reduce, each for any number of ranks: a generator of the exchanges of one rank.

Each tells its cost by Hockney's model ("The communication challenge for MPP", 1994): for N ranks and S bytes, with
alpha seconds before a message, and beta bytes sent and gamma bytes added in a second. Thakur writes beta for 1 / beta.
Thakur is Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", 2005.
"""

from collections.abc import Iterator, Mapping

from common.contract.algorithms.exchange import AllReduce, Exchange, part


def ring(rank: int, ranks: int, elements: int) -> Iterator[Exchange]:
    """A ring: each rank sends to the next one, a part at a time.

    Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009. The input is cut
    into N parts. In N - 1 steps each part goes around and is added up on its way. In N - 1 more the sums go around.

    Cost: 2 (N - 1) alpha + 2 (N - 1) / N S / beta + (N - 1) / N S / gamma. No algorithm sends less per rank.
    """
    for step in range(2 * (ranks - 1)):
        yield Exchange(
            send_to=(rank + 1) % ranks,
            sent=part(rank - step, ranks, elements),
            receive_from=(rank - 1) % ranks,
            received=part(rank - step - 1, ranks, elements),
            adds=step < ranks - 1,
        )


def recursive_doubling(rank: int, ranks: int, elements: int) -> Iterator[Exchange]:
    """Recursive doubling (Thakur): pairs exchange all they have, at twice the distance in each step.

    After step k each rank has the sum over 2^k ranks. No algorithm has fewer steps, so it is the one for small
    messages.

    Cost: log2 N (alpha + S / beta + S / gamma); between powers of two those of `folded` more.
    """
    whole = slice(0, elements)

    def doubling(rank: int, ranks: int, elements: int) -> Iterator[Exchange]:
        distance = 1
        while distance < ranks:
            partner = rank ^ distance
            yield Exchange(send_to=partner, sent=whole, receive_from=partner, received=whole, adds=True)
            distance *= 2

    return folded(doubling, rank, ranks, elements)


def halving_doubling(rank: int, ranks: int, elements: int) -> Iterator[Exchange]:
    """Recursive halving, then doubling: pairs exchange halves of what they still add up, then the sums backwards.

    Rabenseifner's algorithm (Thakur). It sends as little as a ring, in as many steps as a tree.

    Cost: 2 log2 N alpha + 2 (N - 1) / N S / beta + (N - 1) / N S / gamma; between powers of two those of `folded` more.
    """

    def halving(rank: int, ranks: int, elements: int) -> Iterator[Exchange]:
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

    return folded(halving, rank, ranks, elements)


def folded(algorithm: AllReduce, rank: int, ranks: int, elements: int) -> Iterator[Exchange]:
    """Carry out an algorithm for powers of two: the ranks beyond the greatest power of two are folded in.

    Thakur folds neighbours. Here a rank beyond hands its input to the rank as far from the first one, and gets the sum
    at the end.

    Cost, where there are such ranks: 2 alpha + 2 S / beta + S / gamma.
    """
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


def binomial_tree(rank: int, ranks: int, elements: int) -> Iterator[Exchange]:
    """A binomial tree: sums go up to rank 0 and come down again, and all that a rank has goes at once.

    A reduction, then a broadcast (Thakur). A rank's parent is the rank without its lowest bit that is 1.

    Cost: ceil(log2 N) (2 alpha + 2 S / beta + S / gamma).
    """
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


def central_server(rank: int, ranks: int, elements: int) -> Iterator[Exchange]:
    """A central server: rank 0 adds up what all others send it, and sends each the sum, one after another.

    A parameter server without shards: Li et al., "Scaling distributed machine learning with the parameter server",
    2014, divide the weights among several servers, since a single one's link is where everybody waits.

    Cost: (N - 1) (2 alpha + 2 S / beta + S / gamma), all of it at rank 0.
    """
    whole = slice(0, elements)
    if rank:
        yield Exchange(send_to=0, sent=whole)
        yield Exchange(receive_from=0, received=whole)
        return
    for worker in range(1, ranks):
        yield Exchange(receive_from=worker, received=whole, adds=True)
    for worker in range(1, ranks):
        yield Exchange(send_to=worker, sent=whole)


ALGORITHMS: Mapping[str, AllReduce] = {
    "ring": ring,
    "recursive_doubling": recursive_doubling,
    "halving_doubling": halving_doubling,
    "binomial_tree": binomial_tree,
    "central_server": central_server,
}
"""In the order in which to read them. A library of this name carries one out."""
