"""What a rank sends and receives at the same time, and in which step it can."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

_nothing = partial(slice, 0, 0)


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """Elements that a rank sends to one rank, and those that it receives from one rank meanwhile.

    Both are places in the rank's only buffer, which begins with its input and ends with the sum. What is received has
    the same place in the sender's buffer.
    """

    send_to: int | None = None
    """None where the rank only receives."""
    sent: slice = field(default_factory=_nothing)
    receive_from: int | None = None
    """None where the rank only sends."""
    received: slice = field(default_factory=_nothing)
    adds: bool = False
    """Whether the received elements are added to the rank's own. Otherwise they replace them."""


AllReduce = Callable[[int, int, int], Iterator[Exchange]]
"""An algorithm: yields a rank's exchanges in order, from the rank, the number of ranks and the number of elements."""


def part(number: int, parts: int, elements: int) -> slice:
    """Return the place of one of as many parts, which are as equal as can be; beyond the last comes the first."""
    number %= parts
    return slice(number * elements // parts, (number + 1) * elements // parts)


def steps(algorithm: AllReduce, ranks: int, elements: int) -> list[dict[int, Exchange]]:
    """Return each step's exchanges by rank, as if every exchange took one step.

    An exchange takes place in the first step in which the ranks at both ends have come to it. Raises ValueError where
    ranks wait for one another for ever.
    """

    def finds_its_peers(rank: int, meeting: dict[int, Exchange]) -> bool:
        receiver, sender = meeting[rank].send_to, meeting[rank].receive_from
        is_received = receiver is None or (receiver in meeting and meeting[receiver].receive_from == rank)
        is_sent = sender is None or (sender in meeting and meeting[sender].send_to == rank)
        return is_received and is_sent

    ahead = [[*algorithm(rank, ranks, elements)] for rank in range(ranks)]
    found: list[dict[int, Exchange]] = []
    while any(ahead):
        meeting = {rank: exchanges.pop(0) for rank, exchanges in enumerate(ahead) if exchanges}
        while waiting := [rank for rank in meeting if not finds_its_peers(rank, meeting)]:
            for rank in waiting:
                ahead[rank].insert(0, meeting.pop(rank))
        if not meeting:
            raise ValueError(f"All ranks wait for one another after {len(found)} steps.")
        found.append(meeting)
    return found
