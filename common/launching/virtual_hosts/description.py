"""What a virtual cluster is, as its programs find it, and how they shape its links anew."""

import os
import re
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import msgspec

from common.errors import UserError
from common.launching.virtual_hosts import packets

VARIABLE = "LOCKSTEP_VIRTUAL_HOSTS"
"""Environment variable that describes the cluster to what runs on its head."""

MOST_HOSTS = 250
"""As many as have an address, beside the head."""

HEAD_NAME, HEAD_ADDRESS = "head", "10.77.0.254"
"""Of the place that reaches every host, and is none of them."""

INTERFACE = "eth0"
"""Each host's end of its cable."""

TEMPORARY_FOLDER = "/var/tmp"
"""Each host's own. Hosts share /tmp, and Open MPI names its files there by a host's name and a process's number, which
other clusters have as well: its PMIx server doesn't start where it finds those of another."""

SOCKET = "\0lockstep-virtual-hosts"
"""Where the keeper listens: an abstract address (unix(7)), which is the head's network namespace's alone."""

BURST_BYTES = 128 * 1024
"""What a token bucket lets through at once: more than the largest packet, which would be cut otherwise."""

SLOWEST_BITS, FASTEST_BITS = 1e6, 30e9
"""Bits per second between which a token bucket of 128 KiB makes a link of that rate, and its message holds it."""

_ANSWER_SECONDS = 10.0

LONGEST_DELAY_SECONDS = 1.0
"""More than once around the Earth."""

_BIT_UNITS = {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_SECOND_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


@dataclass(frozen=True)
class Cable:
    """The cable of each virtual host: what it lets through, and how late."""

    bandwidth_bits_per_second: float | None
    """Of each direction, headers included; None: as fast as the processor copies."""
    delay_seconds: float = 0.0
    """How long a frame takes from one host to another: a round trip takes twice as long."""

    def __post_init__(self) -> None:
        """Raises UserError for a link that can't be made."""
        bits = self.bandwidth_bits_per_second
        if bits is not None and not SLOWEST_BITS <= bits <= FASTEST_BITS:
            raise UserError(f"A link of {bits:g} bit/s can't be made: give 1mbit to 30gbit, or none for no limit.")
        if not 0 <= self.delay_seconds <= LONGEST_DELAY_SECONDS:
            raise UserError(f"A link can't delay by {self.delay_seconds:g} s: give 0 to {LONGEST_DELAY_SECONDS:g} s.")


UNSHAPED = Cable(None)


@dataclass(frozen=True)
class Wish:
    """What the keeper of virtual hosts is asked for."""

    link: Cable | None = None
    """To make the cables like this."""
    name: str = ""
    """Else to plug in the cable of the host of this name, or to pull it."""
    is_in: bool = True


@dataclass(frozen=True)
class Description:
    """A virtual cluster as a program on its head sees it."""

    link: Cable
    cores_per_host: float | None
    """None: the hosts share all of this machine's cores."""
    names: tuple[str, ...]
    """The hosts' names, which resolve on the head and on each host, in the order of the addresses."""
    keepers: tuple[int, ...] = ()
    """Of each host the process that keeps its namespaces, by its number on the head; none before the hosts are made."""
    networks: tuple[int, ...] = ()
    """Of each host the inode of its network namespace, which tells its keeper from another process of that number."""

    def variables(self) -> dict[str, str]:
        """The environment variables by which a program finds this description."""
        return {VARIABLE: msgspec.json.encode(self).decode()}

    def shape(self, link: Cable) -> "Description":
        """Make the cables like this from the head, and return the description for programs that start from now on.

        What is on its way is lost. Raises UserError where the system can't.
        """
        _ask(Wish(link))
        return replace(self, link=link)

    def plug(self, name: str, is_in: bool) -> None:
        """Plug in the cable of the host of this name, until it answers, or pull it, from the head.

        Raises UserError where the host doesn't answer in time.
        """
        _ask(Wish(name=name, is_in=is_in))
        deadline = time.monotonic() + _ANSWER_SECONDS
        while is_in and not _answers(name):
            if time.monotonic() > deadline:
                raise UserError(f"{name} doesn't answer by ssh though its cable is in: start the session again.")
            time.sleep(0.05)


def _answers(name: str) -> bool:
    """Whether the host's ssh server says what it is."""
    with suppress(OSError), socket.create_connection((name, 22), timeout=1) as connection:
        return connection.recv(4) == b"SSH-"
    return False


def _ask(wish: Wish) -> None:
    """Have the keeper of the hosts do it. Raises UserError where it can't."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(SOCKET)
        packets.send(connection, wish)
        packets.receive(connection, type(None))


def described() -> Description | None:
    """The virtual cluster that this program runs on the head of; None elsewhere."""
    text = os.environ.get(VARIABLE)
    return msgspec.json.decode(text, type=Description) if text else None


def address_of(number: int) -> str:
    """The address of a host, whose numbers count from 1."""
    return f"10.77.0.{number}"


def parse_bandwidth(text: str) -> float:
    """Bits per second, of what tc(8) calls a rate: `100mbit`. Raises UserError for anything else."""
    return _parse(text, _BIT_UNITS, "a bandwidth", "100mbit (bit, kbit, mbit or gbit)")


def parse_duration(text: str) -> float:
    """Seconds, of what tc(8) calls a time: `1ms`. Raises UserError for anything else."""
    return _parse(text, _SECOND_UNITS, "a time", "1ms (us, ms or s)")


def _parse(text: str, units: Mapping[str, float], kind: str, example: str) -> float:
    quantity = re.fullmatch(r"(\d+|\d*\.\d+)([a-z]+)", text.lower(), re.ASCII)
    if not quantity or quantity[2] not in units:
        raise UserError(f"{text!r} isn't {kind}: write it like {example}.")
    return float(quantity[1]) * units[quantity[2]]
