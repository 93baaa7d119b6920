"""One launch over several hosts, and one record of it on this machine, whatever happens to it."""

import dataclasses
import ipaddress
import random
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from common.contract.rows import share_of
from common.declarations.arguments import to_arguments
from common.declarations.strategy import Launch, Options, Place
from common.errors import UserError
from common.files import write_atomically
from common.launching import supervision
from common.launching.hosts.clocks import Offset
from common.launching.hosts.ranks import Assignment, HostsOutcome, run_over_hosts
from common.launching.hosts.survey import HostFacts
from common.launching.hosts.work import FOLDER, LAUNCH
from common.launching.launch import Limits, Program, python_for, settings_for
from common.launching.planned import Hosts, PlannedLaunch
from common.launching.processes import TIMED_OUT_STATUS
from common.measurement.checkpoints import replica_path
from common.measurement.record import declared
from common.records import header
from common.records.files import read_record, write_record
from common.records.header import Link, Virtual
from common.records.site import Site
from common.records.training import Record

_PORTS = range(20_000, 32_000)
"""Below those that Linux gives away by itself (ip(7), ip_local_port_range)."""


@dataclass(frozen=True, kw_only=True)
class Spanning:
    """One launch that may span hosts: what is started, with what, and on how many of them."""

    program: Program
    limits: Limits
    options: Options
    """What its launcher is told."""
    starter: str
    """The module that starts it on one host, in a private network where there can be one."""
    arguments: Sequence[str]
    """The options of its script. `{folder}` in them is a new folder of the first host."""
    files: Sequence[str]
    """Names of the files that come back from that folder, where the launch leaves them there."""
    workers: int
    hosts: int
    bandwidth_bits_per_second: float | None = None
    """Of the links of these hosts, where they are virtual and it was chosen."""
    processes_beside: int = 0
    """How many processes it has beside its workers."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that each of its processes has beside those of its family."""


@dataclass(frozen=True)
class Cluster:
    """The hosts of a comparison, and how this machine learns what may change from launch to launch."""

    members: Sequence[HostFacts]
    spread: Hosts
    """What the plan knows of them."""
    offsets: Callable[[Sequence[HostFacts]], list[Offset]]
    """How far each of these hosts' clocks that count from boot is ahead of this machine's, now."""
    link: Callable[[Spanning], Link | None]
    """What a link between two of the hosts carries now, which is made to be what the launch asks for.

    Raises UserError where it isn't.
    """
    virtual: Virtual | None = None
    """What was asked for of virtual hosts, as a record has it, but for the bandwidth, which each launch names."""


def run_planned(planned: PlannedLaunch, folder: Path, cluster: Cluster) -> Record:
    """Make one planned launch over its hosts and return its record, left in `folder` beside its log.

    A launch that leaves no record gets one here: `unsupported` when it was refused, else `failed`.
    """
    path, log_path = folder / f"{planned.name}.json", folder / f"{planned.name}.log"
    started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    spanning = _spanning(planned)
    site = site_of(spanning, cluster)
    try:
        _refuse_early(planned, cluster)
        site = measured(site, spanning, cluster)
        ended = run(spanning, cluster, site, log_path)
    except UserError as error:
        write_atomically(log_path, f"lockstep: {error}\n".encode())
        status, reason = "unsupported", str(error)
    else:
        if ended.status == 0:
            for name, content in ended.files.items():
                write_atomically(folder / name, content)
            if path.exists():
                return read_record(path, Record)
        status, reason = outcome(ended, spanning, log_path)
    known = declared(planned.strategy, planned.task, planned.options, planned.workers, site)
    write_record(path, Record(**known, status=status, reason=reason, log=log_path.name, started_at=started_at))
    return read_record(path, Record)


def _spanning(planned: PlannedLaunch) -> Spanning:
    files = {"record": Path(FOLDER, f"{planned.name}.json")}
    names = [files["record"].name]
    if planned.task.checkpoint:
        files["checkpoint"] = path = Path(FOLDER, f"{planned.name}.safetensors")
        names += [path.name, *(replica_path(path, number).name for number in range(1, planned.workers))]
    if getattr(planned.options, "trace", False):
        names.append(files["record"].with_suffix(".trace").name)
    task = dataclasses.replace(planned.task, **files)
    return Spanning(
        program=planned.strategy,
        limits=task,
        options=planned.options,
        starter="common.launching.launch",
        arguments=to_arguments(task, planned.options),
        files=names,
        workers=planned.workers,
        hosts=planned.hosts,
        bandwidth_bits_per_second=planned.bandwidth_bits_per_second,
        processes_beside=planned.strategy.processes_beside(planned.options),
    )


def _refuse_early(planned: PlannedLaunch, cluster: Cluster) -> None:
    """Raises UserError for what no host could launch, before anything is started on any."""
    strategy, task = planned.strategy, planned.task
    refuse_early(strategy, planned.hosts)
    if planned.hosts == 1:
        return
    gpus = min(len(member.machine.gpus) for member in cluster.members[: planned.hosts])
    strategy.check(task, planned.options, planned.workers, gpus)
    share_of(task, strategy.work, strategy.is_synchronous(planned.options), 0, planned.workers)


def refuse_early(program: Program, hosts: int) -> None:
    """Raises UserError for a program that isn't installed, or that can't span as many hosts."""
    python_for(program)
    if hosts > 1 and program.launcher.across_hosts is None:
        raise UserError(f"{program.name} has all of its workers in one process, which is on one host: start it there.")


def outcome(ended: HostsOutcome, spanning: Spanning, log_path: Path) -> tuple[str, str]:
    """`unsupported` or `failed`, and one sentence, with the host where it is known, of a launch that left no record."""
    if ended.reason:
        return "failed", ended.reason
    status = TIMED_OUT_STATUS if ended.timed_out else ended.status
    log, reports = log_path.read_text(errors="replace"), spanning.program.launcher.signal_reports
    how, reason = supervision.outcome(status, spanning.limits.deadline_seconds, log, reports)
    return how, f"{ended.failed_host}: {reason}" if ended.failed_host and how == "failed" else reason


def site_of(spanning: Spanning, cluster: Cluster) -> Site:
    """The launch's hosts by what is known before it."""
    hosts = [
        header.Host(
            name=member.host.name,
            hostname=member.hostname,
            workers=spanning.workers // spanning.hosts,
            cores=member.cores,
            processor=member.machine.processor,
            address=member.route["address"],
            interface=member.route["interface"],
        )
        for member in cluster.members[: spanning.hosts]
    ]
    virtual = cluster.virtual and replace(cluster.virtual, bandwidth_bits_per_second=spanning.bandwidth_bits_per_second)
    together = cluster.spread.cores_together
    processes = spanning.workers + spanning.processes_beside
    crowded = together is not None and processes * spanning.limits.threads > together
    return Site(hosts=hosts, virtual=virtual, crowded=crowded)


def measured(site: Site, spanning: Spanning, cluster: Cluster) -> Site:
    """The site with what its clocks and its link are like now. Raises UserError where the link isn't as asked for."""
    offsets = cluster.offsets(cluster.members[: spanning.hosts])
    hosts = [
        replace(host, clock_offset_seconds=each.offset_seconds, clock_uncertainty_seconds=each.uncertainty_seconds)
        for host, each in zip(site.hosts, offsets, strict=True)
    ]
    link = cluster.link(spanning) if spanning.hosts > 1 else None
    return replace(site, hosts=hosts, link=link)


def run(spanning: Spanning, cluster: Cluster, site: Site, log_path: Path) -> HostsOutcome:
    """Make the launch on its hosts, and end what is left of it; its output is in the log. Raises UserError."""
    log_path.parent.mkdir(parents=True, exist_ok=True)
    make = _assignments if spanning.hosts > 1 else _on_one_host
    everyone = [member.host for member in cluster.members]
    assignments = make(spanning, cluster.members[: spanning.hosts], site)
    seconds, launch_id = spanning.limits.deadline_seconds, secrets.token_hex(8)
    return run_over_hosts(assignments, everyone, seconds, log_path, launch_id, spanning.files)


def _on_one_host(spanning: Spanning, members: Sequence[HostFacts], site: Site) -> list[Assignment]:
    """As `nox -s` would start it there, in a private network where there can be one."""
    command = [sys.executable, "-m", spanning.starter, spanning.program.name, *spanning.arguments]
    return [Assignment(members[0].host, [command], site.variable())]


def _assignments(spanning: Spanning, members: Sequence[HostFacts], site: Site) -> list[Assignment]:
    """What each host runs, by the program's own launcher; one that starts all from the first host needs no others."""
    program = spanning.program
    each = spanning.workers // len(members)
    places = tuple(
        Place(member.host.name, member.route["address"], _network(member), member.route["interface"], each)
        for member in members
    )
    told = {**spanning.variables, **site.variable()}
    environments = [settings_for(program, spanning.limits, place.interface) | told for place in places]
    launch = Launch(
        python=python_for(program),
        script=[program.script, *spanning.arguments],
        workers=spanning.workers,
        port=random.choice(_PORTS),
        options=spanning.options,
        places=places,
        variables=(*environments[0], LAUNCH),
    )
    commands = program.launcher.across_hosts(launch)
    return [
        Assignment(member.host, of_host, environment)
        for member, of_host, environment in zip(members, commands, environments, strict=True)
        if of_host
    ]


def _network(member: HostFacts) -> str:
    route = member.route
    return str(ipaddress.ip_interface(f"{route['address']}/{route['prefix_length']}").network)
