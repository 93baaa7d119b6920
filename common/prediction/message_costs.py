"""What a collective takes among ranks that are alike: its messages, one after another, by its algorithm.

A message of S bytes takes alpha + S max(beta, gamma): latency, then the wire's time per byte or the processor's,
whichever is longer, since one sends while the other copies (Hockney, "The communication challenge for MPP", Parallel
Computing 20, 1994; Thakur, Rabenseifner & Gropp, 2005, section 3, for the collectives' formulas).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from common.records.header import PAYLOAD_BYTES, WIRE_BYTES


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

    def times(self, alpha: float, gamma: float) -> Costs:
        """The costs where bytes take `gamma` times as long, and everything else `alpha` times."""
        return Costs(alpha * self.alpha_seconds, gamma * self.gamma_seconds_per_byte, alpha * self.overhead_seconds)

    def seconds(self, wire: Wire, chain: CriticalPath, size_bytes: float) -> float:
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
    """The longest chain by Thakur, Rabenseifner & Gropp's formulas: rings, a tree for broadcast, one message."""
    if ranks < 2:
        return CriticalPath(0, 0.0)
    others, tree = ranks - 1, math.ceil(math.log2(ranks))
    # Gloo carries a reduce-scatter out as a whole all-reduce, of which each rank keeps its part (pytorch issue 149869).
    all_reduce = CriticalPath(2 * others, 2 * others / ranks)
    # Recursive halving, then from rank to rank what isn't where it belongs. Its buffers are known to the senders
    # beforehand (gloo/reduce_scatter.h).
    halving, moved = tree + (ranks > 2), others / ranks + (1 / ranks if ranks > 2 else 0.0)
    return {
        "all_reduce": all_reduce,
        "all_gather": CriticalPath(others, others / ranks),
        "reduce_scatter": all_reduce,
        "halving_scatter": CriticalPath(halving, moved, ways_of_each=1),
        # Receivers are ready while the root still computes.
        "broadcast": CriticalPath(tree, tree, ways_of_each=1),
        "send_receive": CriticalPath(1, 1.0),
    }[collective]
