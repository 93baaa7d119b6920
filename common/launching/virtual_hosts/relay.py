"""Frames from cables into a bridge, some time later: what delays a cluster's links where the kernel has no netem.

    python -m common.launching.virtual_hosts.relay DELAY_SECONDS HEAD_MAC INTO CABLE ...

What comes out of a CABLE, which is an interface, leaves by the interface INTO after the delay. What is for the head,
whose address this is, has got there already, since the bridge forwards that itself.
"""

import select
import socket
import struct
import sys
import time
from collections import deque
from contextlib import suppress

from common.launching.virtual_hosts import kernel

_ALL_PROTOCOLS = 0x0003
_TIMESTAMP = 35  # SO_TIMESTAMPNS, from asm-generic/socket.h: seconds and nanoseconds.
_SOL_PACKET, _VNET_HEADER, _IGNORE_OUTGOING = 263, 15, 23  # From linux/if_packet.h.
_VNET_HEADER_BYTES = 10
_LARGEST = 1 << 17
"""Bytes of a frame, which may be a packet that isn't cut yet, with the header that says how it is to be."""

_BUFFER_BYTES = 1 << 24


def main() -> None:
    """Relay until this process is killed."""
    delay, head = float(sys.argv[1]), bytes.fromhex(sys.argv[2].replace(":", ""))
    kernel.wake_up_in_time()
    into, *cables = (open_interface(name) for name in sys.argv[3:])
    print("ready", flush=True)
    waiting: deque[tuple[float, bytes]] = deque()
    while True:
        timeout = max(waiting[0][0] - time.time(), 0) if waiting else None
        readable, _, _ = select.select(cables, [], [], timeout)
        for cable in readable:
            # A cable that is pulled is an error here.
            with suppress(OSError):
                frame, arrived = _take(cable)
                if frame.startswith(head, _VNET_HEADER_BYTES):
                    continue
                waiting.append((arrived + delay, frame))
        while waiting and waiting[0][0] <= time.time():
            # As in any bridge, a frame for which there is no room is lost.
            with suppress(OSError):
                into.send(waiting.popleft()[1])


def open_interface(name: str) -> socket.socket:
    """A socket that takes and gives whole frames of the interface, and not those that it gave (packet(7))."""
    interface = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    interface.setsockopt(_SOL_PACKET, _VNET_HEADER, 1)
    interface.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    interface.setsockopt(socket.SOL_SOCKET, _TIMESTAMP, 1)
    interface.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
    interface.bind((name, _ALL_PROTOCOLS))
    interface.setblocking(False)
    return interface


def _take(interface: socket.socket) -> tuple[bytes, float]:
    """A frame, and the time of day when the kernel got it, which this process may have slept through."""
    frame, notes, _, _ = interface.recvmsg(_LARGEST, 64)
    [(seconds, nanoseconds)] = [struct.unpack("qq", note) for _, kind, note in notes if kind == _TIMESTAMP]
    return frame, seconds + nanoseconds * 1e-9


if __name__ == "__main__":
    main()
