"""The link between two hosts, as plain TCP finds it: the rate of its payload, and its round trip."""

import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress

from common.errors import UserError
from common.launching.places import place
from common.launching.places.place import Host
from common.records.header import Link

_ROUND_TRIPS, _ROUND_TRIP_SECONDS = 100, 0.2
_PIECE_BYTES = 2**20
_SETTLE_SHARE = 0.25
"""Of the seconds: the sender's window grows first, and what limits a link may let a burst pass."""
_PATIENCE_SECONDS = 20.0


def measure(sender: Host, receiver: Host, address: str, seconds: float) -> Link:
    """Send as much as the link takes for so many seconds to the `address` of the receiver.

    Raises UserError, with the host, where one isn't reached, or one doesn't reach the other.
    """
    request = {"address": address, "seconds": seconds}
    with place.conversation(receiver, "link-serve", request) as server:
        request |= server.hear(_PATIENCE_SECONDS)
        [sent] = place.ask("link-send", {sender: request}, seconds + 2 * _PATIENCE_SECONDS)
        if sent.failure:
            raise UserError(sent.failure)
        received = server.hear(_PATIENCE_SECONDS)
    return Link(bytes_per_second=received["bytes_per_second"], round_trip_seconds=sent.values["round_trip_seconds"])


def serve(address: str, seconds: float, answer: Callable[[dict[str, float]], object]) -> None:
    """Answer with a free port of the address; then echo and receive what `send` sends, and answer with the rate.

    Raises UserError where nothing comes.
    """
    kind = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.create_server((address, 0), family=kind) as server:
            server.settimeout(_PATIENCE_SECONDS)
            answer({"port": server.getsockname()[1]})
            connection, _ = server.accept()
        with connection:
            connection.settimeout(_PATIENCE_SECONDS)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # A byte of 1 is echoed; the first other one begins the stream.
            while connection.recv(1) == b"\1":
                connection.sendall(b"\1")
            answer({"bytes_per_second": _rate_of(connection, seconds)})
            # What is still on its way is dropped (socket(7), SO_LINGER), and the sender told to stop.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError as error:
        raise _no_link(address, error) from error


def _rate_of(connection: socket.socket, seconds: float) -> float:
    """Bytes received per second, once the stream has settled."""
    buffer, counted = bytearray(_PIECE_BYTES), 0
    begin = now = time.monotonic()
    settled, end = begin + _SETTLE_SHARE * seconds, begin + seconds
    while now < end:
        size = connection.recv_into(buffer)
        if not size:
            raise ConnectionResetError("the sender left")
        now = time.monotonic()
        if begin < settled:
            # What comes up to here is what the time begins with.
            begin = now
        else:
            counted += size
    if not counted:
        raise TimeoutError("it carries next to nothing")
    return counted / (now - begin)


def send(
    address: str, port: int, seconds: float, before_stream: Callable[[], object] = lambda: None
) -> dict[str, float]:
    """Exchange small messages with `serve`, then send until it has enough; returns the shortest round trip.

    `before_stream` may wait for other senders, whose streams would lengthen a round trip. Raises UserError where it
    isn't reached.
    """
    try:
        with socket.create_connection((address, port), timeout=_PATIENCE_SECONDS) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            round_trips: list[float] = []
            end = time.monotonic() + _ROUND_TRIP_SECONDS
            while len(round_trips) < _ROUND_TRIPS and (not round_trips or time.monotonic() < end):
                before = time.perf_counter()
                connection.sendall(b"\1")
                if not connection.recv(1):
                    raise ConnectionResetError("the other host left")
                round_trips.append(time.perf_counter() - before)
            before_stream()
            piece, end = memoryview(bytes(_PIECE_BYTES)), time.monotonic() + seconds + _PATIENCE_SECONDS
            with suppress(ConnectionError):  # The receiver ends it.
                while time.monotonic() < end:
                    connection.send(piece)
    except OSError as error:
        raise _no_link(address, error) from error
    return {"round_trip_seconds": min(round_trips)}


def _no_link(address: str, error: OSError) -> UserError:
    words = f"{socket.gethostname()} can't measure the link with {address} ({error.strerror or error})"
    return UserError(f"{words}: let every TCP port through there.")
