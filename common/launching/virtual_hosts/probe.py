"""One host's part in measuring a link: it sends to the next host, and clocks what comes from the one before.

A program of its own, by its path and without anything of ours, so that it starts in milliseconds:

    probe.py ADDRESS SETTLING_SECONDS MEASURING_SECONDS

It says at which port of ADDRESS it listens, is told the next host's address and port, says the smallest round trip to
it in seconds, is told to go, and says how many bytes per second came in.
"""

import socket
import sys
import threading
import time
from contextlib import suppress

_ECHO, _TRANSFER = b"e", b"t"
_EXCHANGES, _EXCHANGING_SECONDS = 200, 0.2
_CHUNK_BYTES = 1 << 18
_PATIENCE_SECONDS = 5.0


def main() -> None:
    """Measure as the command line says, in the order that whoever reads the output gives."""
    address, settling, measuring = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    with socket.create_server((address, 0)) as server:
        server.settimeout(_PATIENCE_SECONDS)
        listener = threading.Thread(target=_listen, args=(server, settling, measuring), daemon=True)
        listener.start()
        _say(server.getsockname()[1])
        host, port = sys.stdin.readline().split()
        with socket.create_connection((host, int(port)), timeout=_PATIENCE_SECONDS) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _say(_smallest_round_trip(connection))
            sys.stdin.readline()
            _send(connection, settling + measuring + _PATIENCE_SECONDS)
        listener.join()


def _say(value: float) -> None:
    print("probe", value, flush=True)


def _smallest_round_trip(connection: socket.socket) -> float:
    until, smallest = time.monotonic() + _EXCHANGING_SECONDS, float("inf")
    for number in range(_EXCHANGES):
        if number > 1 and time.monotonic() > until:
            break
        started = time.monotonic()
        connection.sendall(_ECHO)
        connection.recv(1)
        smallest = min(smallest, time.monotonic() - started)
    return smallest


def _send(connection: socket.socket, seconds: float) -> None:
    """Send until the next host has measured, which may have begun later."""
    chunk, until = _TRANSFER * _CHUNK_BYTES, time.monotonic() + seconds
    with suppress(BrokenPipeError, ConnectionResetError):
        while time.monotonic() < until:
            connection.sendall(chunk)


def _listen(server: socket.socket, settling: float, measuring: float) -> None:
    """Answer the one before as long as it asks, then clock what it sends, and say how many bytes per second came."""
    connection, _ = server.accept()
    buffer = bytearray(_CHUNK_BYTES)
    with connection:
        connection.settimeout(_PATIENCE_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while (byte := connection.recv(1)) == _ECHO:
            connection.sendall(byte)
        settled = time.monotonic() + settling
        while time.monotonic() < settled:
            _take(connection, buffer)
        started, count = time.monotonic(), 0
        while (now := time.monotonic()) < started + measuring:
            count += _take(connection, buffer)
        _say(count / (now - started))


def _take(connection: socket.socket, buffer: bytearray) -> int:
    count = connection.recv_into(buffer)
    if not count:
        raise ConnectionError("The host before has stopped sending.")
    return count


if __name__ == "__main__":
    main()
