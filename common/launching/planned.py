"""One launch of a session, before it is made."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from common.contract.task import PRESETS, Task
from common.declarations.library import Library
from common.declarations.strategy import Options, Strategy, has_exchange, label
from common.declarations.sweep import Sweep
from common.records.collectives import Replayed


@dataclass(frozen=True)
class PlannedLaunch:
    """One launch of the plan. Its name is that of its record, its log and its weights."""

    strategy: Strategy
    workers: int
    purpose: Literal["certificate", "throughput"]
    repetition: int
    task: Task
    options: Options
    hosts: int | None = None
    """How many hosts its workers are on in a comparison over several; None: on this machine, without any ssh."""
    bandwidth_bits_per_second: float | None = None
    """Of the links of these hosts, where they are virtual and it was chosen."""

    @property
    def name(self) -> str:
        """Unique in a comparison, and readable in a list of files."""
        details = [words.replace(" ", "_") for words in label(self.options).split(", ") if words]
        details += [] if has_exchange(self.options) else ["no_exchange"]
        last = "certificate" if self.purpose == "certificate" else f"{self.repetition:02d}"
        world = [self.strategy.name, self.task.preset, self.task.scaling, f"{self.workers}w"]
        world += [] if self.task.batch == PRESETS[self.task.preset].batch else [f"{self.task.batch}rows"]
        world += [] if self.hosts is None else [f"{self.hosts}h"]
        world += [f"{self.bandwidth_bits_per_second / 1e6:g}Mbit"] if self.bandwidth_bits_per_second else []
        return "-".join([*world, *details, last])


@dataclass(frozen=True)
class PlannedSweep:
    """One launch of a session. Its name is that of its record and its log."""

    library: Library
    sweep: Sweep
    repetition: int
    hosts: int | None = None
    """How many hosts its ranks are on in a session over several; None: on this machine, without any ssh."""
    bandwidth_bits_per_second: float | None = None
    """Of the links of these hosts, where they are virtual and it was chosen."""
    replayed: Replayed | None = None
    """What a record has in this field: where a strategy's step is replayed, whose."""

    @property
    def name(self) -> str:
        """Unique in a session, and readable in a list of files."""
        bits = self.bandwidth_bits_per_second
        world = [self.replayed.strategy if self.replayed else self.library.name, f"{self.sweep.workers}w"]
        world += [] if self.hosts is None else [f"{self.hosts}h"]
        world += [f"{bits / 1e6:g}Mbit"] if bits else []
        return "-".join([*world, f"{self.repetition:02d}"])


class Size(NamedTuple):
    """How large a world is: its workers, and the hosts that they are spread over evenly."""

    workers: int
    hosts: int = 1
    bandwidth_bits_per_second: float | None = None
    """Of virtual hosts' links, where it was chosen."""


@dataclass(frozen=True)
class Hosts:
    """What the plan must know of the hosts of a comparison over several."""

    count: int
    slots: int
    """Workers that each host can have."""
    cores: int
    """Of each host."""
    cores_together: int | None = None
    """Of the machine that virtual hosts share."""
    bandwidths_bits_per_second: tuple[float | None, ...] = (None,)
    """Of the links of virtual hosts: a placement over several hosts is measured with each. Of several bandwidths, which
    are a sweep, only the placement over most hosts is."""

    def is_first_link(self, size: Size) -> bool:
        """Whether this size has the first bandwidth, which is where a sweep's launches are made whose result doesn't
        depend on it: certificates, and those without exchange.
        """
        return size.hosts == 1 or size.bandwidth_bits_per_second == self.bandwidths_bits_per_second[0]
