"""The hosts that a launch is spread over, as whoever started it tells its workers."""

import os
import socket
from collections.abc import Sequence

import msgspec

from common.records.header import Allocated, Host, Link, Part, Virtual

VARIABLE = "LOCKSTEP_SITE"
"""Environment variable of every worker with a `Site` as JSON; unset where one machine has all workers."""


class Site(Part, frozen=True, kw_only=True):
    """The hosts of a launch, in the order of their workers' ranks, each with as many workers."""

    hosts: list[Host]
    virtual: Virtual | None = None
    link: Link | None = None
    allocation: Allocated | None = None
    oversubscribed: bool = False
    """Whether hosts share processor cores, as virtual ones do where there are more of them than cores."""

    @property
    def interface(self) -> str | None:
        """This process's host's interface to the others; None where it isn't among the hosts."""
        hostname = socket.gethostname()
        return next((host.interface for host in self.hosts if host.hostname == hostname), None)

    def facts(self) -> dict[str, object]:
        """The fields of a record that it fills."""
        return {"hosts": self.hosts, "virtual": self.virtual, "link": self.link, "allocation": self.allocation}

    def variable(self) -> dict[str, str]:
        """The environment variable that hands it to the workers."""
        return {VARIABLE: msgspec.json.encode(self).decode()}


def site() -> Site | None:
    """The hosts of this process's launch; None where one machine has all workers."""
    value = os.environ.get(VARIABLE)
    return msgspec.json.decode(value, type=Site) if value else None


def hosts_in_words(hosts: Sequence[Host], virtual: Virtual | None) -> str:
    """On how many hosts a launch's workers are, and over what link where that was chosen; empty where one has them all.

    `hosts` and `virtual` are as a record has them.
    """
    if len(hosts) < 2:
        return ""
    link = []
    if virtual and virtual.bandwidth_bits_per_second:
        link.append(f"{virtual.bandwidth_bits_per_second / 1e6:g} Mbit/s")
    if virtual and virtual.delay_seconds:
        link.append(f"{1000 * virtual.delay_seconds:g} ms delay")
    return ", ".join([f"{len(hosts)} hosts", *link])
