"""Hosts that launches are made over: each is started by the program's own launcher, and its files come back here."""

import ipaddress
import random
import secrets
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from common.declarations.strategy import Launch, LaunchHost
from common.errors import UserError
from common.files import write_atomically
from common.launching import ending
from common.launching.ending import TIMED_OUT_STATUS, Ended
from common.launching.hosts.clocks import Offset
from common.launching.hosts.ranks import Assignment, HostsOutcome, run_over_hosts
from common.launching.hosts.survey import HostFacts
from common.launching.hosts.work import FOLDER, LAUNCH
from common.launching.launch import python_for, script_for, settings_for
from common.launching.planned import Hosts, Job
from common.records import header
from common.records.header import Link, Virtual
from common.records.site import Site

_PORTS = range(20_000, 32_000)
"""Below those that Linux gives away by itself (ip(7), ip_local_port_range)."""


@dataclass(frozen=True)
class Cluster:
    """The hosts of a session, and how this machine learns what may change from launch to launch.

    The interface is `common.launching.supervision.Allocation`.
    """

    members: Sequence[HostFacts]
    spread: Hosts
    """What the plan knows of them."""
    offsets: Callable[[Sequence[HostFacts]], list[Offset]]
    """How far each of these hosts' clocks that count from boot is ahead of this machine's, now."""
    link: Callable[[Job], Link | None]
    """What a link between two of the hosts carries now, which is made to be what the launch asks for.

    Raises UserError where it isn't.
    """
    virtual: Virtual | None = None
    """What was asked for of virtual hosts, as a record has it, but for the bandwidth, which each launch names."""

    def folder(self, folder: Path) -> Path:
        """A new folder of the first host, from where the files come."""
        return Path(FOLDER)

    def site(self, job: Job) -> Site:
        """The launch's hosts by what is known before it."""
        hosts = [
            header.Host(
                name=member.host.name,
                hostname=member.hostname,
                workers=job.workers // job.hosts,
                cores=member.cores,
                processor=member.machine.processor,
                address=member.route["address"],
                interface=member.route["interface"],
            )
            for member in self.members[: job.hosts]
        ]
        virtual = self.virtual and replace(self.virtual, bandwidth_bits_per_second=job.bandwidth_bits_per_second)
        together = self.spread.cores_together
        processes = job.workers + job.processes_beside
        oversubscribed = together is not None and processes * job.limits.threads > together
        return Site(hosts=hosts, virtual=virtual, oversubscribed=oversubscribed)

    def measured(self, job: Job, site: Site) -> Site:
        """The site with what its clocks and its link are like now. Raises UserError where the job can't be had there,
        or the link isn't as asked for.
        """
        members = self.members[: job.hosts]
        if job.hosts > 1:
            if job.program.launcher.across_hosts is None:
                raise UserError(
                    f"{job.program.name} has all of its workers in one process, which is on one host: start it there."
                )
            job.check(min(len(member.machine.gpus) for member in members))
        hosts = [
            replace(host, clock_offset_seconds=each.offset_seconds, clock_uncertainty_seconds=each.uncertainty_seconds)
            for host, each in zip(site.hosts, self.offsets(members), strict=True)
        ]
        link = self.link(job) if job.hosts > 1 else None
        return replace(site, hosts=hosts, link=link)

    def run(self, job: Job, site: Site, log_path: Path) -> Ended:
        """Make the launch on its hosts, and end what is left of it. Raises UserError where nothing was started."""
        make = _assignments if job.hosts > 1 else _on_one_host
        assignments = make(job, self.members[: job.hosts], site)
        hosts, seconds = [member.host for member in self.members], job.limits.deadline_seconds
        outcome = run_over_hosts(assignments, hosts, seconds, log_path, secrets.token_hex(8), job.files)
        try:
            for name, content in outcome.files.items():
                write_atomically(log_path.with_name(name), content)
        except UserError as error:
            return Ended("failed", str(error))
        return _ended(outcome, job, log_path)


def _ended(outcome: HostsOutcome, job: Job, log_path: Path) -> Ended:
    """How a launch ended, with the host where it failed by itself."""
    if outcome.reason:
        return Ended("failed", outcome.reason)
    status = TIMED_OUT_STATUS if outcome.timed_out else outcome.status
    log, reports = log_path.read_text(encoding="utf-8", errors="replace"), job.program.launcher.signal_reports
    ended = ending.read(status, job.limits.deadline_seconds, log, reports)
    is_of_host = ended.status == "failed" and outcome.failed_host
    return Ended("failed", f"{outcome.failed_host}: {ended.reason}") if is_of_host else ended


def _on_one_host(job: Job, members: Sequence[HostFacts], site: Site) -> list[Assignment]:
    """As `nox -s` would start it there, in a private network where there can be one."""
    command = [sys.executable, "-m", "common.launching.launch", *job.words]
    return [Assignment(members[0].host, [command], site.variable())]


def _assignments(job: Job, members: Sequence[HostFacts], site: Site) -> list[Assignment]:
    """What each host runs, by the program's own launcher; one that starts all from the first host needs no others."""
    program, each = job.program, job.workers // len(members)
    launch_hosts = tuple(
        LaunchHost(member.host.name, member.route["address"], _network(member), member.route["interface"], each)
        for member in members
    )
    environments = [settings_for(program, job.limits, host.interface) | site.variable() for host in launch_hosts]
    launch = Launch(
        python=python_for(program),
        script=script_for(program, job.arguments, job.runner),
        workers=job.workers,
        port=random.choice(_PORTS),
        options=job.options,
        hosts=launch_hosts,
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
