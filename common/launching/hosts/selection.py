"""The options that name the hosts of a comparison over several, real or virtual."""

from dataclasses import dataclass
from pathlib import Path

from common.errors import UserError
from common.launching.hosts.host import parse_hosts, read_hostfile
from common.launching.places.place import Host
from common.launching.virtual_hosts.description import Link as Wire
from common.launching.virtual_hosts.description import parse_bandwidth, parse_duration

UNLIMITED = "unlimited"
"""The bandwidth of a link that is as fast as this machine makes it."""


@dataclass(frozen=True, kw_only=True)
class Selection:
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
        named = [self.hosts, self.hostfile, self.virtual_hosts]
        if sum(each is not None for each in named) > 1:
            raise UserError("--hosts, --hostfile and --virtual-hosts each name the hosts: give one of them.")
        if self.virtual_hosts is None and (self.bandwidth or self.delay or self.cores_per_host is not None):
            raise UserError(
                "--bandwidth, --delay and --cores-per-host are those of virtual hosts: add --virtual-hosts."
            )
        if self.virtual_hosts is not None and self.virtual_hosts < 2:
            raise UserError(f"--virtual-hosts {self.virtual_hosts}: give 2 or more, or leave it out.")
        if self.cores_per_host is not None and not 0 < self.cores_per_host < float("inf"):
            raise UserError(f"--cores-per-host {self.cores_per_host:g}: give a number above 0.")
        # A bandwidth or a time that isn't one is refused here.
        if self.first_wire and len(set(self.bandwidths_bits_per_second)) < len(self.bandwidth):
            raise UserError(f"--bandwidth {' '.join(self.bandwidth)}: name each once.")

    @property
    def is_here(self) -> bool:
        """Whether it is this machine alone, without any ssh."""
        return self.hosts is None and self.hostfile is None and self.virtual_hosts is None

    @property
    def bandwidths_bits_per_second(self) -> tuple[float | None, ...]:
        """Of virtual hosts' links: each that was asked for, or None alone, which is as fast as it goes."""
        return tuple(None if each == UNLIMITED else parse_bandwidth(each) for each in self.bandwidth) or (None,)

    @property
    def first_wire(self) -> Wire:
        """The link that virtual hosts begin with."""
        return Wire(self.bandwidths_bits_per_second[0], parse_duration(self.delay) if self.delay else 0.0)

    def real_hosts(self) -> list[Host]:
        """The hosts that were named. Raises UserError where they can't be meant."""
        return parse_hosts(self.hosts) if self.hosts is not None else read_hostfile(self.hostfile)
