"""The options that name the hosts of a comparison over several, real or virtual: a list, or a file in MPI's format."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from common.errors import UserError
from common.launching.hosts import slurm
from common.launching.hosts.slurm import SlurmOptions
from common.launching.places.place import Host
from common.launching.places.ssh import SshHost
from common.launching.virtual_hosts import cores
from common.launching.virtual_hosts.description import MOST_HOSTS, Cable, parse_bandwidth, parse_duration

_UNLIMITED = "unlimited"
"""The bandwidth of a link that is as fast as this machine makes it."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SLOTS = re.compile(r"0*[1-9][0-9]{0,8}")


@dataclass(frozen=True, kw_only=True)
class Selection(SlurmOptions):
    """Which hosts a comparison is over; none named: this machine alone."""

    hosts: str | None = None
    """Compare over these hosts, each with as many workers at most: host1:2,host2:2. ssh must reach them unasked, and
    each must have this commit and its environments at the same path."""
    hostfile: Path | None = None
    """The same from a file in MPI's format: `host1 slots=2` on each line."""
    virtual_hosts: int | None = None
    """Compare over so many virtual hosts, which this machine makes for the comparison and takes down after it."""
    bandwidth: tuple[str, ...] = ()
    """Of each virtual host's link, such as 100mbit, or unlimited; with several each number of workers is measured on
    one host, and on as many as it can be with each of these. None named: as fast as it goes."""
    delay: str | None = None
    """From a virtual host to another, such as 1ms; a round trip takes twice as long."""
    cores_per_host: float | None = None
    """Processor cores that each virtual host may use, such as 0.5; none: as this machine's are divided among them."""

    def __post_init__(self) -> None:
        """Raises UserError for options that contradict one another, and for values that can't be meant."""
        if sum(each is not None for each in (self.hosts, self.hostfile, self.virtual_hosts, self.slurm or None)) > 1:
            raise UserError("--hosts, --hostfile, --virtual-hosts and --slurm each name the hosts: give one of them.")
        super().__post_init__()
        if self.virtual_hosts is None and (self.bandwidth or self.delay or self.cores_per_host is not None):
            raise UserError(
                "--bandwidth, --delay and --cores-per-host are those of virtual hosts: add --virtual-hosts."
            )
        if self.virtual_hosts is not None and not 2 <= self.virtual_hosts <= MOST_HOSTS:
            raise UserError(f"--virtual-hosts {self.virtual_hosts}: give 2 to {MOST_HOSTS}, or leave it out.")
        if self.cores_per_host is not None and not cores.FEWEST <= self.cores_per_host < math.inf:
            raise UserError(f"--cores-per-host {self.cores_per_host:g}: give a number of {cores.FEWEST:g} or more.")
        # What is read of them refuses a bandwidth and a time that isn't one.
        _ = self.first_cable
        if len(set(self.bandwidths_bits_per_second)) < len(self.bandwidth):
            raise UserError(f"--bandwidth {' '.join(self.bandwidth)}: name each once.")

    @property
    def is_here(self) -> bool:
        """Whether it is this machine alone, without any ssh."""
        return self.hosts is None and self.hostfile is None and self.virtual_hosts is None and not self.slurm

    @property
    def bandwidths_bits_per_second(self) -> tuple[float | None, ...]:
        """Of virtual hosts' links: each that was asked for, or None alone, which is as fast as it goes."""
        return tuple(None if each == _UNLIMITED else parse_bandwidth(each) for each in self.bandwidth) or (None,)

    @property
    def first_cable(self) -> Cable:
        """The link that virtual hosts begin with."""
        return Cable(self.bandwidths_bits_per_second[0], parse_duration(self.delay) if self.delay else 0.0)

    def real_hosts(self) -> list[Host]:
        """The hosts that were named. Raises UserError where they can't be meant, or there are none."""
        if self.slurm:
            return slurm.nodes()
        return read_hostfile(self.hostfile) if self.hostfile is not None else parse_hosts(self.hosts or "")


def parse_hosts(text: str) -> list[Host]:
    """The hosts in a list such as `host1:2,host2:2`; a host without `:n` has one slot.

    Raises UserError for an empty list, a host that stands in it twice, and names and slots that can't be meant.
    """
    return _distinct(_host_of(part.strip()) for part in text.split(","))


def read_hostfile(path: Path) -> list[Host]:
    """The hosts in a file of MPI's format: on each line `NAME slots=N` or `NAME:N`, and `#` before a remark.

    A host without slots has one. `max_slots` may stand there as well: it allows MPI more workers than slots, and a
    comparison never starts more. Raises UserError as `parse_hosts` does, and for a file that can't be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"The hosts can't be read from {path} ({error}): name a text file in MPI's format.") from error
    words = (re.sub(r"\s*=\s*", "=", line.partition("#")[0]).split() for line in lines)
    hosts = [_host_of_line(*line) for line in words if line]
    if not hosts:
        raise UserError(f"{path} names no host: write one on each line, such as `host1 slots=2`.")
    return _distinct(hosts)


def _host_of_line(name: str, *settings: str) -> Host:
    slots = [word.partition("=")[2] for word in settings if word.partition("=")[0] == "slots"]
    unknown = [word for word in settings if word.partition("=")[0] not in ("slots", "max_slots", "max-slots")]
    if unknown:
        raise UserError(f"{name}: `{unknown[0]}` isn't understood: write lines such as `{name} slots=2`.")
    if len(slots) > 1 or (slots and ":" in name):
        raise UserError(f"{name}: its slots are said twice: leave one of them out.")
    return _host_of(f"{name}:{slots[0]}" if slots else name)


def _host_of(text: str) -> Host:
    name, separator, slots = text.partition(":")
    if not name:
        raise UserError(f"'{text}' names no host: write hosts as in host1:2,host2:2.")
    if "@" in name:
        user, host = name.partition("@")[0], name.rpartition("@")[2]
        raise UserError(
            f"{name}: a host is named without its user: write `User {user}` below `Host {host}` in ~/.ssh/config, and "
            "leave the user out here."
        )
    if not _NAME.fullmatch(name):
        raise UserError(
            f"{name!a} can't be a host's name: it has letters, digits, '.', '_' and '-' alone, and begins with a "
            "letter or a digit; give another name to it in ~/.ssh/config."
        )
    if separator and not _SLOTS.fullmatch(slots):
        raise UserError(f"{name}: {slots!a} slots: give a whole number above 0.")
    return SshHost(name, int(slots) if separator else 1)


def _distinct(hosts: Iterable[Host]) -> list[Host]:
    distinct: dict[str, Host] = {}
    for host in hosts:
        # Names of hosts are the same in small and capital letters (RFC 4343).
        if host.name.lower() in distinct:
            raise UserError(f"{host.name} stands twice among the hosts: name it once, with all of its slots.")
        distinct[host.name.lower()] = host
    return [*distinct.values()]
