"""What every record of a launch begins with, whatever was measured: how it ended, where it ran, and with what."""

import sys
from collections.abc import Iterable
from typing import Annotated, Literal

from msgspec import Meta, Struct

SCHEMA_VERSION = 5

PRESENTATION = ("colors", "title", "distributed_by", "formula", "formula_source")
"""Fields for reports alone, which older records hold; a session keeps them once (`common.records.presentation`)."""

MOST = 2**53
"""Up to here a float has every whole number."""

Count = Annotated[int, Meta(ge=0, le=MOST)]
"""A number of things."""
Positive = Annotated[int, Meta(ge=1, le=MOST)]
Finite = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
Seconds = Annotated[float, Meta(ge=0.0, le=1e9)]
"""How long something took, which may be too short for the clock."""
Duration = Annotated[float, Meta(ge=1e-9, le=1e9)]
"""How long something took that can't take less than a nanosecond."""
Moment = Annotated[float, Meta(ge=-1e9, le=1e9)]
"""Seconds on a clock, or between two clocks."""
Amount = Annotated[float, Meta(ge=0.0, le=1e18)]
"""A mean of counts, such as bytes per step, or a rate."""
Share = Annotated[float, Meta(ge=0.0, le=1.0)]

Value = str | bool | None | Annotated[int, Meta(ge=-MOST, le=MOST)] | Finite
"""An option's."""


class Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A part of a record. What has its default isn't in the file."""


class Machine(Part, frozen=True, kw_only=True):
    """The machine of rank 0; everything is empty where nothing ran."""

    name: str = ""
    processor: str = ""
    cores: Count | None = None
    core_limit: Amount | None = None
    """As many cores' time as control groups let the launch have; None: nothing limits it."""
    memory_bytes: Count | None = None
    gpus: list[str] = []
    system: str = ""
    """Kernel and its release."""

    @property
    def usable_cores(self) -> int | None:
        """The cores whose time a launch may have; None where they aren't known."""
        if self.cores is None or self.core_limit is None:
            return self.cores
        return min(self.cores, max(1, int(self.core_limit)))


class Host(Part, frozen=True, kw_only=True):
    """One of several hosts that had workers of a launch."""

    name: str
    """By which it was asked for."""
    hostname: str = ""
    """What it calls itself."""
    workers: Count
    cores: Count | None = None
    memory_limit_bytes: Count | None = None
    """What control groups let the workers have together; None: nothing limits it, or nobody asked."""
    core_limit: Amount | None = None
    """As many cores' time as control groups let them have together, likewise."""
    processor: str = ""
    address: str = ""
    """In the network that joins the hosts."""
    interface: str = ""
    """Its own, to that network."""
    clock_offset_seconds: Moment | None = None
    """By how much its clock that counts from boot was ahead of that of the machine that started the launch; None where
    the launch didn't come that far."""
    clock_uncertainty_seconds: Seconds | None = None
    """Within which, either way, this is known."""


class Virtual(Part, frozen=True, kw_only=True):
    """What was asked for of virtual hosts on one machine; None where nothing was."""

    bandwidth_bits_per_second: Amount | None = None
    delay_seconds: Seconds | None = None
    cores_per_host: Amount | None = None


WIRE_BYTES, PAYLOAD_BYTES = 1514, 1448
"""Of a full TCP segment, with a time stamp in its header, on Ethernet: all of it, and the part that is data."""


class Link(Part, frozen=True, kw_only=True):
    """What a link carries from one host to another."""

    bytes_per_second: Amount
    """Of TCP's payload, at the receiving end."""
    round_trip_seconds: Seconds
    """The shortest of many small messages there and back."""


class Allocated(Part, frozen=True, kw_only=True):
    """What Slurm decided for the job that a launch was a step of; None outside of Slurm."""

    job: str
    """Its number."""
    partition: str = ""
    nodes: str = ""
    """As Slurm writes them, such as node[01-04]."""
    cores_per_node: list[Count] = []
    """Processor cores of the job on each node, in their order."""


class Versioned(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file holds. Every field is one key of its JSON."""

    schema_version: int = SCHEMA_VERSION
    """Raised when a field goes or changes its meaning; one that is added has a default, which older files get."""

    def flaws(self) -> Iterable[str]:
        """Say what contradicts the rest, although every value is of its type; nothing where all fits."""
        return ()


class Header(Versioned, frozen=True, kw_only=True, tag_field="payload"):
    """The fields that all records share. The key `payload` names the kind of the rest."""

    family: str = ""
    """What the program's folder calls itself in prose."""
    colors: list[str] = []
    """What the family is drawn in, from dark to light. Presentation."""
    status: Literal["ok", "unsupported", "failed"]
    """How the launch ended."""
    reason: str | None = None
    """Why a launch isn't ok: one sentence."""
    log: str | None = None
    """Name of the log file, in the record's folder."""
    world_size: Count
    """Workers: processes, or replicas that one process holds or feeds."""
    threads_per_worker: Count
    """Threads that each worker computed with."""
    backend: str = ""
    """What carried the data, such as gloo."""
    device: str = "cpu"
    """What computed: cpu, or a GPU's name."""
    oversubscribed: bool = False
    """Whether rank 0's machine had fewer cores than threads of workers and processes beside them; none was pinned."""
    pinned_cores: list[Count] = []
    """Cores that rank 0's process was kept on."""
    bound_by_slurm: bool = False
    """Whether Slurm kept it there, for a script that srun itself started; else the process did so by itself."""
    private_network: bool = False
    """Whether the launch had a network namespace to itself."""
    versions: dict[str, str] = {}
    """Versions of Python, the framework and the libraries."""
    python_variables: dict[str, str] = {}
    """The variables that Python itself obeys, as the user had set them where rank 0 ran."""
    packages_digest: str | None = None
    """SHA-256 of the names and versions of all that is installed where rank 0 ran; null in older records."""
    host: Machine = Machine()
    """Rank 0's machine."""
    hosts: list[Host] = []
    """Each of several hosts, in the order of the ranks; empty where a machine was measured on its own."""
    virtual: Virtual | None = None
    """None where hosts are real."""
    link: Link | None = None
    """What went from one of the hosts to another before the launch; None on one host."""
    allocation: Allocated | None = None
    """The job of Slurm's that the launch was a step of."""
    git_commit: str | None = None
    """Commit of this project, `+changes` when the files differ from it."""
    started_at: str
    """When rank 0's process started: ISO 8601, UTC."""
