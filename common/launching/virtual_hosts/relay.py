"""Frames from cables into a bridge, some time later: what delays a cluster's links where the kernel has no netem."""

import os
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_ALL_PROTOCOLS = 0x0003
_TIMESTAMP = 35  # SO_TIMESTAMPNS, from asm-generic/socket.h: seconds and nanoseconds.
_SOL_PACKET, _VNET_HEADER, _IGNORE_OUTGOING = 263, 15, 23  # From linux/if_packet.h.
_VNET_HEADER_BYTES = 10
_LARGEST = 1 << 17
"""Bytes of a frame, which may be a packet that isn't cut yet, with the header that says how it is to be."""

_BUFFER_BYTES = 1 << 24


def start(delay_seconds: float, head: str, into: str, cables: Sequence[str]) -> int:
    """Start the process that has what comes out of the cables leave by the interface `into` after the delay.

    What is for the head, whose address `head` is, has got there already, since the bridge forwards that itself.
    Returns a descriptor of the process (pidfd_open(2)), whose number may be another one's once it has ended. Raises
    OSError where the kernel gives no such sockets, or the process ended at once.
    """
    sockets = [_open(name) for name in (into, *cables)]
    process = os.fork()
    if process == 0:
        try:
            _relay(delay_seconds, bytes.fromhex(head.replace(":", "")), sockets[0], sockets[1:])
        finally:
            os._exit(1)
    for each in sockets:
        each.close()
    return os.pidfd_open(process)


def _open(name: str) -> socket.socket:
    """A socket that takes and gives whole frames of the interface, and not those that it gave (packet(7))."""
    interface = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    interface.setsockopt(_SOL_PACKET, _VNET_HEADER, 1)
    interface.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    interface.setsockopt(socket.SOL_SOCKET, _TIMESTAMP, 1)
    interface.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    interface.bind((name, _ALL_PROTOCOLS))
    interface.setblocking(False)
    return interface


def _relay(delay_seconds: float, head: bytes, into: socket.socket, cables: Sequence[socket.socket]) -> None:
    # Timers end when they are due, instead of up to 50 microseconds later (proc(5)), where the kernel can do that.
    with suppress(OSError):
        Path("/proc/self/timerslack_ns").write_text("1", encoding="utf-8")
    waiting: deque[tuple[float, bytes]] = deque()
    while True:
        timeout = max(waiting[0][0] - time.time(), 0) if waiting else None
        readable, _, _ = select.select(cables, [], [], timeout)
        for cable in readable:
            # A cable that is pulled is an error here.
            with suppress(OSError):
                frame, notes, _, _ = cable.recvmsg(_LARGEST, 64)
                if frame.startswith(head, _VNET_HEADER_BYTES):
                    continue
                # When the kernel got it, which this process may have slept through.
                [arrival] = [struct.unpack("qq", note) for _, kind, note in notes if kind == _TIMESTAMP]
                waiting.append((arrival[0] + arrival[1] * 1e-9 + delay_seconds, frame))
        while waiting and waiting[0][0] <= time.time():
            # As in any bridge, a frame for which there is no room is lost.
            with suppress(OSError):
                into.send(waiting.popleft()[1])
