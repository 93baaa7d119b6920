"""The hosts of a comparison: made where they're virtual, asked what they are, refused where they don't go together."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from functools import cache

from rich.console import Console

from common.launching.hosts import clocks, link, survey
from common.launching.hosts.allocation import Cluster
from common.launching.hosts.host import parse_hosts
from common.launching.hosts.selection import Selection
from common.launching.hosts.survey import HostFacts
from common.launching.planned import Hosts, Job
from common.launching.virtual_hosts.calibration import calibrate
from common.launching.virtual_hosts.cluster import virtual_hosts
from common.launching.virtual_hosts.description import Description, described
from common.measurement import machine
from common.records.header import Link, Virtual

_LINK_SECONDS = 1.0


def is_to_be_made(selection: Selection) -> bool:
    """Whether virtual hosts are asked for, and this program isn't on the head of any yet."""
    return selection.virtual_hosts is not None and described() is None


def run_on_virtual_hosts(selection: Selection, command: list[str], lock: int) -> int:
    """Make the virtual hosts, run the command on their head, and take them down; returns its exit status.

    The command inherits the `lock` that `machine.alone` gave. Raises UserError where the system doesn't let this
    user make them.
    """
    with virtual_hosts(selection.virtual_hosts, selection.first_wire, selection.cores_per_host) as made:
        return made.run(command, {machine.MEASURES: str(lock)}, lock)


def spread_of(selection: Selection, most_workers: int) -> Hosts:
    """What the plan knows of virtual hosts, before they are made as well."""
    count, cores = selection.virtual_hosts, len(os.sched_getaffinity(0))
    each = max(1, int(min(cores / count, selection.cores_per_host or cores)))
    return Hosts(count, most_workers, each, cores, selection.bandwidths_bits_per_second)


def find(console: Console, selection: Selection, most_workers: int) -> Cluster:
    """The hosts that the options name, each asked what it is, which is shown as a table.

    Virtual ones are those of the head that this program is on. Raises UserError where a host can't be reached, or where
    something differs among them that mustn't.
    """
    wires = described() if selection.virtual_hosts is not None else None
    named = [f"{name}:{most_workers}" for name in wires.names] if wires else []
    hosts = parse_hosts(",".join(named)) if named else selection.real_hosts()
    surveyed = survey.survey(hosts)
    console.print(survey.table(surveyed))
    survey.refuse(surveyed)
    real = Hosts(len(hosts), min(host.slots for host in hosts), min(member.cores for member in surveyed))
    virtual = Virtual(delay_seconds=selection.first_wire.delay_seconds, cores_per_host=selection.cores_per_host)
    return Cluster(
        members=surveyed,
        spread=spread_of(selection, most_workers) if wires else real,
        offsets=lambda members: clocks.measure([member.host for member in members]),
        link=_calibrated(wires) if wires else _link_between(surveyed),
        virtual=virtual if wires else None,
    )


def _link_between(members: Sequence[HostFacts]) -> Callable[[Job], Link | None]:
    """The link from the second host to the first, which is measured once: real links aren't made for a launch."""

    @cache
    def measured() -> Link:
        first, second, *_ = members
        return link.measure(second.host, first.host, str(first.route["address"]), _LINK_SECONDS)

    return lambda job: measured() if len(members) > 1 else None


def _calibrated(description: Description) -> Callable[[Job], Link]:
    """Virtual links of the bandwidth that each launch asks for, calibrated just before it."""
    now = description

    def calibrated(job: Job) -> Link:
        nonlocal now
        wanted = dataclasses.replace(now.link, bandwidth_bits_per_second=job.bandwidth_bits_per_second)
        if wanted != now.link:
            now = now.shape(wanted)
        return calibrate(now)

    return calibrated
