"""How far a host's clock is ahead of this one's, and how sure that is."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from common.launching.places import place
from common.launching.places.place import Host

_EXCHANGES = 50
_FIRST_SECONDS, _NEXT_SECONDS = 30.0, 10.0


@dataclass(frozen=True)
class Exchange:
    """A question and its answer: when the one left and the other came by this clock, and the other clock between."""

    sent_ns: int
    theirs_ns: int
    received_ns: int


@dataclass(frozen=True)
class Offset:
    """How far another clock is ahead of this one."""

    offset_seconds: float
    uncertainty_seconds: float
    """The true offset is at most so far from that, whichever way took how much of the round trip."""


def offset_of(exchanges: Sequence[Exchange]) -> Offset:
    """The offset by the exchange with the shortest round trip: the answer's time against the middle of that trip.

    It is wrong by half the round trip at most, which is so where one way took all of it (Cristian, "Probabilistic clock
    synchronization", 1989, section 3; NTP's clock filter chooses as well, RFC 5905, section 10). Both clocks are taken
    to run alike during an exchange.
    """
    best = min(exchanges, key=lambda each: each.received_ns - each.sent_ns)
    # In whole nanoseconds, since a fraction of so large a number would be lost.
    twice_the_offset = 2 * best.theirs_ns - best.sent_ns - best.received_ns
    return Offset(twice_the_offset / 2e9, (best.received_ns - best.sent_ns) / 2e9)


def measure(hosts: Sequence[Host]) -> list[Offset]:
    """The offset of every host's CLOCK_BOOTTIME, which nobody sets, to this machine's.

    Raises UserError, with the host, where one isn't reached.
    """
    with ExitStack() as ends:
        # They connect at the same time, and then each is asked alone.
        conversations = [ends.enter_context(place.conversation(host, "clock", {})) for host in hosts]
        offsets: list[Offset] = []
        for conversation in conversations:
            exchanges: list[Exchange] = []
            for seconds in (_FIRST_SECONDS, *[_NEXT_SECONDS] * _EXCHANGES):
                sent_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
                conversation.say()
                theirs_ns = conversation.hear(seconds)["boottime_ns"]
                exchanges.append(Exchange(sent_ns, theirs_ns, time.clock_gettime_ns(time.CLOCK_BOOTTIME)))
            # The first answer comes when the connection is there, and says nothing about the clocks.
            offsets.append(offset_of(exchanges[1:]))
        return offsets
