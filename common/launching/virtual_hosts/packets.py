"""Messages between the processes of a virtual cluster, each a packet that comes whole: an answer, or why there is none.

A socket of packets (SOCK_SEQPACKET) never makes its reader wait for the rest of a message.
"""

import socket
import traceback
from typing import Any, TypeVar

import msgspec

from common.errors import UserError

T = TypeVar("T")

_PACKET_BYTES = 1 << 16


class _Message(msgspec.Struct):
    content: Any = None
    refused: str = ""
    """A sentence for the user."""
    failed: str = ""
    """A traceback."""


def pair() -> tuple[socket.socket, socket.socket]:
    """Two sockets, each of which receives what the other one sends."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(connection: socket.socket, content: object = None) -> None:
    """Send what JSON can hold, or an exception, which the receiver raises."""
    if isinstance(content, UserError):
        message = _Message(refused=str(content))
    elif isinstance(content, BaseException):
        message = _Message(failed="".join(traceback.format_exception(content)))
    else:
        message = _Message(content)
    connection.send(msgspec.json.encode(message))


def receive(connection: socket.socket, kind: type[T]) -> T:
    """The next message's content, which is of this kind.

    Raises UserError or RuntimeError for a message that has a cause instead, and ConnectionError where the sender left.
    """
    packet = connection.recv(_PACKET_BYTES)
    if not packet:
        raise ConnectionError("A process of the virtual cluster has ended before its time.")
    message = msgspec.json.decode(packet, type=_Message)
    if message.refused:
        raise UserError(message.refused)
    if message.failed:
        raise RuntimeError(message.failed)
    return msgspec.convert(message.content, kind)
