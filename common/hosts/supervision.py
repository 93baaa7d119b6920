"""One planned launch over several hosts, and one record of it on this machine, whatever happens to it."""

import dataclasses
import ipaddress
import random
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from common import supervision
from common.contract.rows import share_of
from common.contract.task import Task, to_arguments
from common.errors import UserError
from common.files import write_atomically
from common.hosts.clocks import Offset
from common.hosts.launching import Assignment, HostsOutcome, run_over_hosts
from common.hosts.link import Link
from common.hosts.survey import HostFacts
from common.hosts.work import FOLDER, LAUNCH
from common.launch import python_for, settings_for
from common.measurement.record import Record, declared, read_record, write_record
from common.measurement.site import Site
from common.plan import Hosts, PlannedLaunch
from common.processes import TIMED_OUT_STATUS
from common.strategy import Launch, Place

_PORTS = range(20_000, 32_000)
"""Below those that Linux gives away by itself (ip(7), ip_local_port_range)."""


@dataclass(frozen=True)
class Cluster:
    """The hosts of a comparison, and how this machine learns what may change from launch to launch."""

    members: Sequence[HostFacts]
    spread: Hosts
    """What the plan knows of them."""
    offsets: Callable[[Sequence[HostFacts]], list[Offset]]
    """How far each of these hosts' clocks that count from boot is ahead of this machine's, now."""
    link: Callable[[PlannedLaunch], Link | None]
    """What a link between two of the hosts carries now, which is made to be what the launch asks for.

    Raises UserError where it isn't.
    """
    virtual: Mapping[str, float | None] = field(default_factory=dict)
    """What was asked for of virtual hosts, as a record has it, but for the bandwidth, which each launch names."""


def run_planned(planned: PlannedLaunch, folder: Path, cluster: Cluster) -> Record:
    """Make one planned launch over its hosts and return its record, left in `folder` beside its log.

    A launch that leaves no record gets one here: `unsupported` when it was refused, else `failed`.
    """
    path, log_path = folder / f"{planned.name}.json", folder / f"{planned.name}.log"
    log_path.parent.mkdir(parents=True, exist_ok=True)
    started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    site = _site(planned, cluster)
    try:
        _refuse_early(planned, cluster)
        site = _measured(site, planned, cluster)
        ended = _run(planned, cluster, site, log_path)
    except UserError as error:
        log_path.write_text(f"lockstep: {error}\n")
        status, reason = "unsupported", str(error)
    else:
        for name, content in ended.files.items():
            write_atomically(folder / name, content)
        if ended.status == 0 and path.exists():
            return read_record(path)
        status, reason = _outcome(ended, planned.task, log_path)
    known = declared(planned.strategy, planned.task, planned.options, planned.workers, site)
    write_record(path, Record(**known, status=status, reason=reason, log=log_path.name, started_at=started_at))
    return read_record(path)


def _outcome(ended: HostsOutcome, task: Task, log_path: Path) -> tuple[str, str]:
    if ended.reason:
        return "failed", ended.reason
    status = TIMED_OUT_STATUS if ended.timed_out else ended.status
    how, reason = supervision.outcome(status, task.deadline_seconds, log_path.read_text(errors="replace"))
    return how, f"{ended.failed_host}: {reason}" if ended.failed_host and how == "failed" else reason


def _refuse_early(planned: PlannedLaunch, cluster: Cluster) -> None:
    """Raises UserError for what no host could launch, before anything is started on any."""
    strategy, task = planned.strategy, planned.task
    python_for(strategy)
    if planned.hosts == 1:
        return
    if strategy.launcher.across_hosts is None:
        raise UserError(f"{strategy.name} has all of its workers in one process, which is on one host: start it there.")
    gpus = min(len(member.machine["gpus"]) for member in _members(planned, cluster))
    strategy.check(task, planned.options, planned.workers, gpus)
    share_of(task, strategy.work, strategy.is_synchronous(planned.options), 0, planned.workers)


def _members(planned: PlannedLaunch, cluster: Cluster) -> Sequence[HostFacts]:
    return cluster.members[: planned.hosts]


def _site(planned: PlannedLaunch, cluster: Cluster) -> Site:
    """The launch's hosts by what is known before it."""
    hosts = [
        {
            **{"name": member.host.name, "hostname": member.hostname, "workers": planned.workers // planned.hosts},
            **{"cores": member.cores, "processor": member.machine["processor"]},
            **{"address": member.route["address"], "interface": member.route["interface"]},
        }
        for member in _members(planned, cluster)
    ]
    bandwidth = {"bandwidth_bits_per_second": planned.bandwidth_bits_per_second}
    virtual, together = bandwidth | dict(cluster.virtual) if cluster.virtual else {}, cluster.spread.cores_together
    processes = planned.workers + planned.strategy.processes_beside(planned.options)
    crowded = together is not None and processes * planned.task.threads > together
    return Site(hosts=hosts, virtual=virtual, crowded=crowded)


def _measured(site: Site, planned: PlannedLaunch, cluster: Cluster) -> Site:
    """The site with what its clocks and its link are like now."""
    offsets = cluster.offsets(_members(planned, cluster))
    hosts = [
        host | {"clock_offset_seconds": each.offset_seconds, "clock_uncertainty_seconds": each.uncertainty_seconds}
        for host, each in zip(site.hosts, offsets, strict=True)
    ]
    link = cluster.link(planned) if planned.hosts > 1 else None
    return dataclasses.replace(site, hosts=hosts, link=dataclasses.asdict(link) if link else {})


def _run(planned: PlannedLaunch, cluster: Cluster, site: Site, log_path: Path) -> HostsOutcome:
    files = {"record": Path(FOLDER, f"{planned.name}.json")}
    if planned.task.checkpoint:
        files["checkpoint"] = Path(FOLDER, f"{planned.name}.safetensors")
    task = dataclasses.replace(planned.task, **files)
    make = _assignments if planned.hosts > 1 else _on_one_host
    everyone = [member.host for member in cluster.members]
    assignments = make(planned, task, _members(planned, cluster), site)
    return run_over_hosts(assignments, everyone, task.deadline_seconds, log_path, secrets.token_hex(8))


def _on_one_host(planned: PlannedLaunch, task: Task, members: Sequence[HostFacts], site: Site) -> list[Assignment]:
    """As `nox -s` would start it there, in a private network where there can be one."""
    arguments = [planned.strategy.name, *to_arguments(task, planned.options)]
    command = [sys.executable, "-m", "common.launch", *arguments]
    return [Assignment(members[0].host, [command], site.variable())]


def _assignments(planned: PlannedLaunch, task: Task, members: Sequence[HostFacts], site: Site) -> list[Assignment]:
    """What each host runs, by the strategy's own launcher; one that starts all from the first host needs no others."""
    strategy = planned.strategy
    each = planned.workers // len(members)
    places = tuple(
        Place(member.host.name, member.route["address"], _network(member), member.route["interface"], each)
        for member in members
    )
    environments = [settings_for(strategy, task, place.interface) | site.variable() for place in places]
    launch = Launch(
        python=python_for(strategy),
        script=[strategy.script, *to_arguments(task, planned.options)],
        workers=planned.workers,
        port=random.choice(_PORTS),
        options=planned.options,
        places=places,
        variables=(*environments[0], LAUNCH),
    )
    commands = strategy.launcher.across_hosts(launch)
    return [
        Assignment(member.host, of_host, environment)
        for member, of_host, environment in zip(members, commands, environments, strict=True)
        if of_host
    ]


def _network(member: HostFacts) -> str:
    route = member.route
    return str(ipaddress.ip_interface(f"{route['address']}/{route['prefix_length']}").network)
