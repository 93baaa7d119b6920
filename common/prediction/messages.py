"""What a collective takes among ranks that are alike: its messages, one after another, by its algorithm.

A message of S bytes takes alpha + S max(beta, gamma): latency, then the wire's time per byte or the processor's,
whichever is longer, since one sends while the other copies (Hockney, "The communication challenge for MPP", Parallel
Computing 20, 1994; Thakur, Rabenseifner & Gropp, 2005, section 3, for the collectives' formulas).
"""

import math
from dataclasses import dataclass, field
from functools import cache

from common.contract.algorithms.all_reduce import ALGORITHMS
from common.prediction.events import Event, play
from common.records.header import PAYLOAD_BYTES, WIRE_BYTES

MOST_PLAYED_RANKS = 64
"""Above so many ranks a collective goes by its formula."""

_ELEMENTS = 720_720 * 64
"""Elements of the message that is played, which most numbers of ranks divide evenly."""


@dataclass(frozen=True)
class Wire:
    """What joins hosts."""

    bandwidth_bits_per_second: float | None = None
    """None: as fast as the processor sends."""
    latency_seconds: float = 0.0
    """On the way from one host to another."""
    burst_bytes: int = field(default=0, compare=False)
    """What a token bucket lets pass at once after a pause (tc-tbf(8)), as virtual links have one."""

    @property
    def seconds_per_byte(self) -> float:
        """Of payload, with the headers that go with it; 0 without a limit."""
        bits = self.bandwidth_bits_per_second
        return 8 * WIRE_BYTES / PAYLOAD_BYTES / bits if bits else 0.0


@dataclass(frozen=True)
class Costs:
    """What a collective costs."""

    alpha_seconds: float
    """Of one message, however small it is."""
    gamma_seconds_per_byte: float
    """Of the processor."""
    overhead_seconds: float = 0.0
    """Of the whole collective, however many messages it has."""

    def times(self, alpha: float, gamma: float) -> "Costs":
        """The costs where bytes take `gamma` times as long, and everything else `alpha` times."""
        return Costs(alpha * self.alpha_seconds, gamma * self.gamma_seconds_per_byte, alpha * self.overhead_seconds)

    def seconds(self, wire: Wire, chain: "CriticalPath", size_bytes: float) -> float:
        """What a collective of this size takes, whose messages follow one another.

        The wire's token bucket fills while a message is waited for.
        """
        beta, payload_bytes = wire.seconds_per_byte, chain.share * size_bytes
        each = self.alpha_seconds + chain.ways_of_each * wire.latency_seconds
        waiting = self.overhead_seconds + chain.messages * each
        on_the_wire = payload_bytes * beta + max(0.0, waiting - chain.messages * wire.burst_bytes * beta)
        return max(waiting + payload_bytes * self.gamma_seconds_per_byte, on_the_wire)


@dataclass(frozen=True)
class CriticalPath:
    """The longest chain of messages of a collective."""

    messages: float
    share: float
    """Of the collective's size, what they carry together."""
    ways_of_each: float = 2.0
    """How often a message waits for the way between two hosts: twice, since its receiver first says that it is ready,
    unless the sender knows that beforehand."""


def critical_path(collective: str, ranks: int) -> CriticalPath:
    """The longest chain of a collective: played among few ranks, by its formula among many.

    Raises ValueError for a collective that no strategy's graph has.
    """
    if ranks < 2:
        return CriticalPath(0, 0.0)
    if collective == "all_reduce" and ranks <= MOST_PLAYED_RANKS:
        return played("ring", ranks)
    return by_formula(collective, ranks)


def by_formula(collective: str, ranks: int) -> CriticalPath:
    """The chain by Thakur, Rabenseifner & Gropp's formulas: rings, a tree for broadcast, one message for a send.

    Raises ValueError as `path` does.
    """
    others, tree = ranks - 1, math.ceil(math.log2(ranks))
    # Gloo carries a reduce-scatter out as a whole all-reduce, of which each rank keeps its part (pytorch issue 149869).
    all_reduce = CriticalPath(2 * others, 2 * others / ranks)
    # Recursive halving, then from rank to rank what isn't where it belongs. Its buffers are known to the senders
    # beforehand (gloo/reduce_scatter.h).
    halving, moved = tree + (ranks > 2), others / ranks + (1 / ranks if ranks > 2 else 0.0)
    formulas = {
        "all_reduce": all_reduce,
        "all_gather": CriticalPath(others, others / ranks),
        "reduce_scatter": all_reduce,
        "halving_scatter": CriticalPath(halving, moved, ways_of_each=1),
        # Receivers are ready while the root still computes.
        "broadcast": CriticalPath(tree, tree, ways_of_each=1),
        "send_receive": CriticalPath(1, 1.0),
    }
    if collective not in formulas:
        raise ValueError(f"No formula for {collective}.")
    return formulas[collective]


@cache
def played(algorithm: str, ranks: int) -> CriticalPath:
    """The chain of an algorithm among so many ranks, each with a link of its own: a simulation of all its messages."""
    messages, share = (_last_end(algorithm, ranks, *unit) for unit in ((1.0, 0.0), (0.0, 1.0)))
    return CriticalPath(messages, share)


def _last_end(algorithm: str, ranks: int, message_seconds: float, whole_seconds: float) -> float:
    """When the last rank is done, with these seconds for each message and for all bytes of the collective."""
    exchanges = [[*ALGORITHMS[algorithm](rank, ranks, _ELEMENTS)] for rank in range(ranks)]
    # For each exchange of each rank an event that sends, and one that ends when what it waits for is there.
    place = {
        (rank, number): 2 * index
        for index, (rank, number) in enumerate(
            (rank, number) for rank in range(ranks) for number in range(len(exchanges[rank]))
        )
    }
    senders: dict[tuple[int, int], list[int]] = {}
    for (rank, number), sending in place.items():
        receiver = exchanges[rank][number].send_to
        if receiver is not None:
            senders.setdefault((rank, receiver), []).append(sending)
    events: list[Event] = []
    for rank, number in place:
        each, before = exchanges[rank][number], (place[rank, number - 1] + 1,) if number else ()
        part = (each.sent.stop - each.sent.start) / _ELEMENTS
        seconds = 0.0 if each.send_to is None else message_seconds + part * whole_seconds
        arrival = () if each.receive_from is None else (senders[each.receive_from, rank].pop(0),)
        events.append(Event("send", seconds, before, f"link of rank {rank}"))
        events.append(Event("done", 0.0, (len(events) - 1, *arrival)))
    return max(play(events))
