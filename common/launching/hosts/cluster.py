"""The hosts of a session: found, made where they're virtual, and launched over by each program's own launcher."""

import random
import secrets
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console

from common.contract.task import Task
from common.declarations.strategy import Launch, LaunchHost
from common.errors import FAILED, PREFIX, UserError
from common.files import write_atomically
from common.launching import attempts, exit_cause
from common.launching.executor import Executor
from common.launching.exit_cause import Ended
from common.launching.hosts import clocks, link, slurm, survey
from common.launching.hosts.clocks import Offset
from common.launching.hosts.ranks import Assignment, HostsOutcome, run_over_hosts
from common.launching.hosts.selection import Selection, parse_hosts
from common.launching.hosts.supervisor import FOLDER, LAUNCH
from common.launching.hosts.survey import HostFacts
from common.launching.injector import Injector
from common.launching.launch import python_for, script_for, settings_for
from common.launching.planned import Hosts, Job
from common.launching.processes import Outcome
from common.launching.virtual_hosts.description import Cable, Description, described
from common.launching.virtual_hosts.link_calibration import calibrate
from common.launching.virtual_hosts.virtual_cluster import virtual_hosts
from common.measurement import limits, machine
from common.records import header
from common.records.header import Allocated, Link, Virtual
from common.records.site import Site

_LINK_SECONDS = 1.0
_PORTS = range(20_000, 32_000)
"""Below those that Linux gives away by itself (ip(7), ip_local_port_range)."""


@dataclass(frozen=True)
class Cluster(Executor[Site]):
    """The hosts of a session."""

    members: Sequence[HostFacts]
    spread: Hosts
    """What the plan knows of them."""
    offsets: Callable[[Sequence[HostFacts]], list[Offset]]
    """How far each of these hosts' clocks that count from boot is ahead of this machine's, now."""
    link: Callable[[Job], Link | None]
    """What a link between two of the hosts carries now. Raises UserError where that isn't what the job asks for."""
    virtual: Virtual | None = None
    """What was asked for of virtual hosts, as a record has it, but for what each launch names."""
    allocation: Allocated | None = None
    """What Slurm decided, where the hosts are nodes of an allocation."""
    shares_disk: bool = False
    """Whether a launch's files are made in the folder of its log, as on a disk that the hosts share: they are there for
    a launch that is started again."""

    @property
    def folder(self) -> Path | None:
        return None if self.shares_disk else Path(FOLDER)

    @property
    def kind(self) -> str:
        """What its first host is, without its name: hosts of one kind measure alike."""
        first = self.members[0]
        return f"{self.spread}, {first.machine.processor}, {first.cores} cores, GPUs {first.machine.gpus}"

    def site(self, job: Job) -> Site:
        """The launch's hosts by what is known before it."""
        hosts = [
            header.Host(
                name=member.host.name,
                hostname=member.hostname,
                workers=job.workers // job.hosts,
                cores=member.cores,
                memory_limit_bytes=member.limits.memory_bytes,
                core_limit=member.limits.cores,
                processor=member.machine.processor,
                address=member.route.address,
                interface=member.route.interface,
            )
            for member in self.members[: job.hosts]
        ]
        virtual = self.virtual and replace(self.virtual, bandwidth_bits_per_second=job.bandwidth_bits_per_second)
        if virtual and job.delay_seconds is not None:
            virtual = replace(virtual, delay_seconds=job.delay_seconds)
        cores, threads = self.spread.cores_together, (job.workers + job.processes_beside) * job.workload.threads
        oversubscribed = cores is not None and threads > cores
        return Site(hosts=hosts, virtual=virtual, allocation=self.allocation, oversubscribed=oversubscribed)

    def measured(self, job: Job, site: Site) -> Site:
        """The site with what its clocks and its link are like now. Raises UserError as `Executor` has it."""
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
        return replace(site, hosts=hosts, link=self.link(job) if job.hosts > 1 else None)

    def run(self, job: Job, site: Site, log_path: Path) -> Ended:
        """Make the launch on its hosts, and end what is left of it. Raises UserError where nothing was started."""
        if isinstance(job.workload, Task) and job.workload.is_accounted:
            return self._run_again(job, job.workload, site, log_path)
        return self._attempt(job, site, log_path, job.deadline_seconds, {})[0]

    def _run_again(self, job: Job, task: Task, site: Site, log_path: Path) -> Ended:
        """Make the launch while it suffers its fault, again after each failure as often as the task allows.

        Raises UserError for a fault of another host, and where these aren't virtual ones that share a disk.
        """
        hosts = described()
        if not hosts or not self.shares_disk or job.hosts < 2:
            raise UserError(
                "--inject and --restarts over hosts take virtual ones: `nox -s faults -- --virtual-hosts 2`."
            )
        if task.fault and task.fault.name not in (None, *hosts.names[: job.hosts]):
            raise UserError(f"--inject {task.inject}: name one of {', '.join(hosts.names[: job.hosts])}.")
        ends: list[Ended] = []
        # Of /tmp, whatever TMPDIR is: the hosts share it, and a socket's path has at most 107 characters (unix(7)).
        with tempfile.TemporaryDirectory(prefix="lockstep-", dir="/tmp") as folder, log_path.open("wb") as log:
            injector = Injector(task.fault, job.program.launcher.task_in, hosts, Path(folder))
            part = Path(folder) / "log"

            def start() -> Outcome:
                ended, outcome = self._attempt(job, site, part, task.deadline_seconds, injector.variables)
                ends.append(ended)
                log.write(part.read_bytes())
                return Outcome(outcome.status, noted_boottime_ns=outcome.noted_boottime_ns)

            def note(sentence: str) -> None:
                log.write(f"{PREFIX}note: {sentence}\n".encode())

            attempts.run(task, log_path.with_name(job.files[0]), injector, start, note)
        return ends[-1]

    def _attempt(
        self, job: Job, site: Site, log_path: Path, seconds: float, variables: Mapping[str, str]
    ) -> tuple[Ended, HostsOutcome]:
        """Start the job once, with these variables beside its own, and return how it ended."""
        if job.hosts > 1:
            assignments = _assignments(job, self.members[: job.hosts], site, variables)
        else:
            # As `nox -s` would start it there, in a private network where there can be one.
            command = [sys.executable, "-m", "common.launching.launch", *job.words]
            host = self.members[0].host
            variables = site.variable() | host.variables() | dict(job.variables)
            assignments = [Assignment(host, [command], variables)]
        hosts = [member.host for member in self.members]
        files = () if self.shares_disk else job.files
        outcome = run_over_hosts(assignments, hosts, seconds, log_path, secrets.token_hex(8), files)
        try:
            for name, content in outcome.files.items():
                write_atomically(log_path.with_name(name), content)
        except UserError as error:
            return Ended("failed", str(error)), outcome
        if outcome.reason:
            return Ended("failed", outcome.reason), outcome
        log = log_path.read_text(encoding="utf-8", errors="replace")
        launcher = job.program.launcher
        ended = exit_cause.read(outcome.status, seconds, log, launcher)
        if ended.status != "failed":
            return ended, outcome
        # Who failed first by its status need not be who said the sentence.
        speakers = [line.partition("| ")[0] for line in log.splitlines() if line.endswith(f"{FAILED}{ended.reason}")]
        host = speakers[0] if speakers else outcome.failed_host
        return Ended("failed", f"{host}: {ended.reason}") if host else ended, outcome


def _assignments(job: Job, members: Sequence[HostFacts], site: Site, variables: Mapping[str, str]) -> list[Assignment]:
    """What each host runs, with these variables beside its own, by the program's own launcher.

    One that starts all from the first host needs no others.
    """
    program, workers = job.program, job.workers // len(members)
    assert program.launcher.across_hosts, "What has none was refused before."
    launch_hosts = tuple(
        LaunchHost(member.host.name, member.route.address, member.route.network, member.route.interface, workers)
        for member in members
    )
    environments = [
        settings_for(program, job.workload, host.interface) | site.variable() | dict(variables) for host in launch_hosts
    ]
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
        Assignment(member.host, of_host, environment | member.host.variables())
        for member, of_host, environment in zip(members, commands, environments, strict=True)
        if of_host
    ]


def move_to_virtual_hosts(selection: Selection, module: str) -> None:
    """Where virtual hosts are asked for, run this program's `module` on their head once more, and exit as it does.

    On their head nothing is done. Raises UserError where the system doesn't let this user make them.
    """
    if selection.virtual_hosts is None or described():
        return
    with (
        machine.alone() as lock,
        virtual_hosts(selection.virtual_hosts, selection.first_cable, selection.cores_per_host) as made,
    ):
        sys.exit(made.run([sys.executable, "-m", module, *sys.argv[1:]], lock))


def spread_of(selection: Selection, most_workers: int) -> Hosts:
    """What the plan knows of virtual hosts, before they are made as well."""
    count, cores = selection.virtual_hosts or 1, limits.usable_cores()
    cores_per_host = max(1, int(min(cores / count, selection.cores_per_host or cores)))
    return Hosts(count, most_workers, cores_per_host, cores, selection.bandwidths_bits_per_second)


def find(console: Console, selection: Selection, workers: Sequence[int]) -> Cluster:
    """The hosts that the options name for worlds of so many workers, each asked what it is, which is shown as a table.

    Virtual ones are those of the head that this program is on. Raises UserError where a host can't be reached, where
    something differs among them that mustn't, and where they have slots for none of these worlds but the smallest.
    """
    wires = described() if selection.virtual_hosts is not None else None
    named = ",".join(f"{name}:{max(workers)}" for name in wires.names) if wires else ""
    hosts = parse_hosts(named) if wires else selection.real_hosts()
    surveyed = survey.survey(hosts)

    @cache
    def link_between() -> Link:
        # Once: real links aren't made for a launch.
        first, second, *_ = surveyed
        return link.measure(second.host, first.host, first.route.address, _LINK_SECONDS)

    console.print(survey.table(surveyed))
    survey.refuse(surveyed)
    if wires:
        spread, link_of = spread_of(selection, max(workers)), _calibrated(wires)
    else:
        slots, cores = min(host.slots for host in hosts), min(member.cores for member in surveyed)
        by_srun = selection.slurm and slurm.starts_mpi(hosts)
        spread, link_of = Hosts(len(hosts), slots, cores, srun_starts_mpi=by_srun), lambda job: link_between()
        _refuse_without_slots(spread, workers)
    if selection.slurm:
        slurm.refuse_types(surveyed)
    virtual = Virtual(delay_seconds=selection.first_cable.delay_seconds, cores_per_host=selection.cores_per_host)
    return Cluster(
        members=surveyed,
        spread=spread,
        offsets=lambda members: clocks.measure([member.host for member in members]),
        link=link_of,
        virtual=virtual if wires else None,
        allocation=slurm.allocated(hosts) if selection.slurm else None,
    )


def _refuse_without_slots(spread: Hosts, workers: Sequence[int]) -> None:
    """Raises UserError where the hosts have no slots for any world of several workers that is asked for."""
    slots, fewest = spread.count * spread.slots, min((count for count in workers if count > 1), default=1)
    if fewest > slots:
        words = f"{spread.count} host has" if spread.count == 1 else f"{spread.count} hosts have"
        raise UserError(
            f"{words} {slots} slots together, and {fewest} workers need as many: name more hosts or slots, or give "
            "--workers 1."
        )


def _calibrated(description: Description) -> Callable[[Job], Link]:
    """Virtual links as each launch asks for them, calibrated just before it."""
    now = description

    def calibrated(job: Job) -> Link:
        nonlocal now
        delay_seconds = description.link.delay_seconds if job.delay_seconds is None else job.delay_seconds
        wanted = Cable(job.bandwidth_bits_per_second, delay_seconds)
        if wanted != now.link:
            now = now.shape(wanted)
        return calibrate(now)

    return calibrated
