"""The hosts that a launch is spread over, as whoever started it tells its workers."""

import dataclasses
import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

VARIABLE = "LOCKSTEP_SITE"
"""Environment variable of every worker with a `Site` as JSON; unset where one machine has all workers."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """The hosts of a launch, in the order of their workers' ranks, each with as many workers."""

    hosts: list[dict[str, object]]
    """As a record has them."""
    virtual: dict[str, float | None] = field(default_factory=dict)
    """As a record has it."""
    link: dict[str, float] = field(default_factory=dict)
    """As a record has it."""
    crowded: bool = False
    """Whether hosts share processor cores, as virtual ones do where there are more of them than cores."""

    @property
    def interface(self) -> str | None:
        """This process's host's interface to the others; None where it isn't among the hosts."""
        own = socket.gethostname()
        return next((str(host["interface"]) for host in self.hosts if host["hostname"] == own), None)

    def facts(self) -> dict[str, object]:
        """The fields of a record that it fills."""
        return {"hosts": self.hosts, "virtual": self.virtual, "link": self.link}

    def variable(self) -> dict[str, str]:
        """The environment variable by which workers are told."""
        return {VARIABLE: json.dumps(dataclasses.asdict(self))}


def site() -> Site | None:
    """What this process was told; None where nobody told anything."""
    told = os.environ.get(VARIABLE)
    return Site(**json.loads(told)) if told else None


def placement(hosts: Sequence[Mapping[str, object]], virtual: Mapping[str, float | None]) -> str:
    """On how many hosts a launch's workers are, and over what link where that was chosen; empty where one has them all.

    `hosts` and `virtual` are as a record has them.
    """
    if len(hosts) < 2:
        return ""
    bandwidth, delay = (virtual.get(name) for name in ("bandwidth_bits_per_second", "delay_seconds"))
    link = [f"{bandwidth / 1e6:g} Mbit/s"] if bandwidth else []
    link += [f"{1000 * delay:g} ms delay"] if delay else []
    return ", ".join([f"{len(hosts)} hosts", *link])
