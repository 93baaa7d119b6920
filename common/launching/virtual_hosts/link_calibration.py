"""Whether a virtual link is what was asked for: its rate and its round trip, measured between the hosts.

Every host sends to the next one, and the last to the first, all at the same time, as in a ring: each cable is full in
both directions. The hosts' shares of cores don't count, since it is the link that is measured.
"""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from common.errors import UserError
from common.launching.hosts import link as tcp
from common.launching.virtual_hosts import description, kernel
from common.launching.virtual_hosts.description import BURST_BYTES, Description, address_of
from common.records.header import PAYLOAD_BYTES, WIRE_BYTES, Link

TOLERANCE = 0.1
"""By which share of what was asked for a link may miss it."""

MEASURING_SECONDS = (0.75, 2.75)
"""For how long a link is measured, and for how long once more where that misses what was asked for: what else runs on
this machine for a moment takes a large part of the shorter one."""

_WAIT_SECONDS = 20.0
"""For how long senders wait for each other."""


def calibrate(cluster: Description) -> Link:
    """Measure the cluster's link from its head, in about a second: that of the host where it is worst.

    Raises UserError where it misses what the description has by more than 10%.
    """
    short, long = MEASURING_SECONDS
    with suppress(UserError):
        return check(cluster.link, measure(cluster, short))
    return check(cluster.link, measure(cluster, long))


def check(asked: description.Cable, measured: Link) -> Link:
    """Return the measured link. Raises UserError where it misses what was asked for by more than 10%."""
    bits = 8 * measured.bytes_per_second * WIRE_BYTES / PAYLOAD_BYTES
    bits_asked = asked.bandwidth_bits_per_second
    if bits_asked is not None and abs(bits - bits_asked) > TOLERANCE * bits_asked:
        raise UserError(
            f"The virtual link carries {bits / 1e6:.4g} Mbit/s where {bits_asked / 1e6:g} were asked for: ask for "
            "less, have fewer hosts, or leave this machine alone meanwhile."
        )
    seconds, seconds_asked = measured.round_trip_seconds, 2 * asked.delay_seconds
    if seconds_asked and abs(seconds - seconds_asked) > TOLERANCE * seconds_asked:
        raise UserError(
            f"The virtual link's round trip takes {seconds * 1e3:.4g} ms where twice its delay is "
            f"{seconds_asked * 1e3:g}: ask for a longer delay, have fewer hosts, or leave this machine alone meanwhile."
        )
    return measured


def measure(cluster: Description, seconds: float) -> Link:
    """Measure the link for so many seconds, whatever was asked for. Raises UserError where a host is lost."""
    count, bits = len(cluster.keepers), cluster.link.bandwidth_bits_per_second
    # The buckets at both ends are full at first, and a quarter of the time isn't counted.
    seconds += 4 * 2 * 8 * BURST_BYTES / bits if bits else 0.0
    answers: list[SimpleQueue[Any]] = [SimpleQueue() for _ in range(count)]
    # No stream begins before all round trips are measured.
    streams = threading.Barrier(count, timeout=_WAIT_SECONDS)

    def serve(number: int) -> None:
        try:
            _enter(cluster, number)
            tcp.serve(address_of(number + 1), seconds, answers[number].put)
        except Exception as error:
            answers[number].put(error)

    def send(number: int) -> float:
        following = (number + 1) % count
        try:
            _enter(cluster, number)
            sent: Any = tcp.send(address_of(following + 1), ports[following], seconds, streams.wait)
        except UserError:
            streams.abort()
            raise
        except threading.BrokenBarrierError as error:
            raise UserError("another host sends nothing") from error
        return sent["round_trip_seconds"]

    def answers_of(name: str) -> list[Any]:
        values = [answer.get() for answer in answers]
        if refusal := next((value for value in values if isinstance(value, Exception)), None):
            raise refusal
        return [value[name] for value in values]

    try:
        # Threads, each of which is in a host's network.
        with ThreadPoolExecutor(2 * count) as threads:
            for number in range(count):
                threads.submit(serve, number)
            ports = answers_of("port")
            round_trips = [*threads.map(send, range(count))]
            rates = answers_of("bytes_per_second")
    except UserError as error:
        raise UserError(
            f"The virtual link can't be measured ({error.__cause__ or error}): see whether a host is lost or its cable "
            "pulled."
        ) from error
    return Link(bytes_per_second=min(rates), round_trip_seconds=max(round_trips))


def _enter(cluster: Description, number: int) -> None:
    """Move this thread to the network of the host of this number. Raises UserError where the host is gone."""
    keeper = cluster.keepers[number]
    with suppress(OSError):
        kernel.enter_network(Path(f"/proc/{keeper}/ns/net"))
        if os.stat("/proc/thread-self/ns/net").st_ino == cluster.networks[number]:
            return
    raise UserError(f"the virtual host of process {keeper} is gone")
