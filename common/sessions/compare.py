"""Run a comparison: make the planned launches one after the other, keep one record of each, write the report.

To start it: `nox -s compare`, or `nox -s compare -- --profile full --plan`. An interrupted comparison goes on where it
stopped when it is started again with the same options.
"""

import contextlib
import dataclasses
import math
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import pandas
import tyro
from rich.console import Console
from rich.table import Table

from common.contract import oracle_cache
from common.contract.model import is_smooth
from common.contract.rows import share_of
from common.contract.task import maths_of
from common.declarations import catalogue
from common.declarations.strategy import has_exchange, label, name_of
from common.errors import UserError, exit_with_one_line, print_refusal
from common.files import ensure_writable
from common.launching.executor import HERE, run_planned
from common.launching.hosts import slurm
from common.launching.hosts.cluster import Cluster
from common.launching.hosts.selection import Selection
from common.launching.planned import PlannedLaunch
from common.measurement import machine
from common.records import calibration, ceiling, certificate, change, manifest, metrics
from common.records.ceiling import Ceiling
from common.records.certificate import Certificate
from common.records.files import damaged_records, read_records
from common.records.plan import LEFT_OUT, LeftOut
from common.records.tables import write_rows
from common.records.training import Record
from common.sessions import chosen_hosts, probes, regression, submission
from common.sessions.comparison_schedule import MORE, ComparisonSchedule
from common.sessions.comparison_scope import Scope, certificate_launches, not_made, plan_table, worlds
from common.sessions.other_checkout import Against, find, other_checkout
from common.sessions.probes import PlannedProbe
from common.sessions.session import Options, Output, Session, Stage, begin, console_for, counted, in_words, report

TOLERANCE = 0.05
"""The default of --tolerance."""


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Compare the strategies on this machine and write the report."""

    scope: tyro.conf.OmitArgPrefixes[Scope] = dataclasses.field(default_factory=Scope)
    selection: tyro.conf.OmitArgPrefixes[Selection] = dataclasses.field(default_factory=Selection)
    output: tyro.conf.OmitArgPrefixes[Output] = dataclasses.field(
        default_factory=lambda: Output(out=Path("reports/out/comparison.pdf"))
    )
    session: tyro.conf.OmitArgPrefixes[Options] = dataclasses.field(default_factory=Options)
    against_commit: str | None = None
    """Make the launches of every round with this commit's files as well, and end with status 1 where this checkout is
    slower, or where nothing could be compared."""
    tolerance: float = TOLERANCE
    """By which share a step may take longer than with that commit."""

    def __post_init__(self) -> None:
        """Raises UserError for a tolerance without a commit, and for a commit or an address over several hosts."""
        if self.tolerance != TOLERANCE and self.against_commit is None:
            raise UserError(
                f"--tolerance {self.tolerance:g} has no effect without --against-commit: name a commit there, or leave "
                "--tolerance out."
            )
        if self.against_commit is not None and not (self.selection.is_here and self.scope.address is None):
            raise UserError("--against-commit compares on this machine alone: leave out the options that name hosts.")
        if self.scope.address is not None and not self.selection.is_here:
            raise UserError("--address names where the launches go: leave out the options that name hosts.")


def main() -> None:
    """Run what the command line asks for. Raises UserError for what a user can mend."""
    arguments = tyro.cli(Arguments, description=__doc__, args=submission.own_words(sys.argv[1:]))
    console, module, selection = console_for(width=120), "common.sessions.compare", arguments.selection
    if selection.submit:
        submission.submit(console, "compare", module, arguments)
        return
    hosts, spread = chosen_hosts.find(console, module, selection, arguments.scope.workers, arguments.output.plan)
    scope = dataclasses.replace(arguments.scope, spread=spread)
    if reasons := not_made(scope):
        console.print(f"Not compared: {', '.join(reasons)}. {' '.join(dict.fromkeys(reasons.values()))}")
    if arguments.output.plan:
        _print_plan(console, scope, arguments.against_commit)
        return
    ensure_writable(arguments.output.out)
    against, identity = None, chosen_hosts.identity(scope, selection, hosts)
    if arguments.against_commit is not None:
        against = find(arguments.against_commit, arguments.tolerance)
        identity += f"\nagainst {against.commit}"
    job = slurm.job() if selection.slurm else None
    with begin(console, "compare", arguments, identity, kind=scope.profile, job=job) as session:
        calibration.copy_into(session.folder, session.folder.parent, machine.host_facts())
        with other_checkout(against, session.folder) if against else nullcontext() as checkout:
            stages = _run(session, scope, hosts, checkout)
        failure = _conclude(session, against, stages)
    status = report("reports", session.folder, arguments.output.out)
    if failure:
        print_refusal(failure)
    sys.exit(status or int(bool(failure)))


def _run(session: Session, scope: Scope, hosts: Cluster | None, checkout: Path | None) -> list[Stage[Any]]:
    """Make the launches that the folder still lacks; those of rounds with the other `checkout` as well, if any."""

    def prepare(launches: Sequence[PlannedLaunch]) -> None:
        # The report needs them, and the first time they take long: the schedule has to know it.
        names = {launch.strategy.name for launch in launches}
        of_names = [(strategy, size) for strategy, size in worlds(scope) if strategy.name in names]
        certified = [launch for world in of_names for launch in certificate_launches(scope, *world)]
        compute_oracles([*launches, *certified])

    schedule = ComparisonSchedule(scope, random.Random(session.order_seed), probes.planned(scope), prepare)

    def make(launch: PlannedLaunch | PlannedProbe, folder: Path) -> Record | Ceiling:
        if not isinstance(launch, PlannedLaunch):
            # A login node may have started this, and isn't what is measured.
            return run_planned(launch, folder, hosts if hosts and hosts.allocation else HERE)
        if checkout and regression.is_paired(schedule.stage, launch):
            started = time.monotonic()
            record, there = regression.run_both(launch, folder, checkout)
            seconds = time.monotonic() - started
            session.say(f"{launch.name}, other commit", _in_words(launch, there), there.status, seconds)
            return record
        return run_planned(launch, folder, hosts) if hosts else run_planned(launch, folder)

    def table(stages: Sequence[Stage[Any]]) -> pandas.DataFrame:
        return plan_table(stages, session.order_seed, scope.margin)

    stages = session.run(schedule, make, probes.read, _in_words, table)
    if not schedule.has_time_for_probes:
        session.console.print("Time didn't suffice for the frameworks' ceilings.")
    for strategy, minutes in schedule.left_out.items():
        session.console.print(f"Time didn't suffice for {strategy}: --minutes {math.ceil(minutes)} would do.")
    write_rows(session.folder / LEFT_OUT, [LeftOut(*each) for each in schedule.left_out.items()], LeftOut)
    manifest.note(session.folder, [session.folder / name for name in (LEFT_OUT, calibration.FILE)])
    return stages


def _in_words(launch: PlannedLaunch | PlannedProbe, record: Record | Ceiling) -> str:
    """The speed of a good launch, else why it isn't good."""
    if record.status == "ok":
        if isinstance(record, Ceiling):
            return next(iter(ceiling.in_words(record)), "nothing to clock")
        return f"{metrics.throughput(record).samples_per_second:>9,.0f} samples/s"
    if isinstance(launch, PlannedProbe) or launch.purpose == "throughput":
        return in_words(launch, record)
    name = name_of(launch.strategy.name, label(launch.options))
    return f"{name} with {launch.workers} workers has no certificate: {in_words(launch, record)}"


def _conclude(session: Session, against: Against | None, stages: Sequence[Stage[Any]]) -> str | None:
    """Say what came of all launches; returns why this checkout doesn't pass, by itself or `against` a commit."""
    records = read_records(session.folder, Record)
    made = {launch.name for stage in stages for launch in stage.launches}
    for launch, sentence in damaged_records(session.folder, Record, records).items():
        if launch in made:
            raise UserError(sentence)
    print_summary(session.console, list(records.values()))
    if not against:
        return failure_of(records, certificate.compare(records, session.folder))
    failure = regression.conclude(session.console, against, session.folder, stages)
    manifest.note(session.folder, [session.folder / change.FILE])
    # This checkout alone makes certificates, so the gate has no pair of one that fails.
    certificates_here = {name: record for name, record in records.items() if record.task.checkpoint_steps}
    return failure or failure_of(certificates_here, [])


def failure_of(records: Mapping[str, Record], comparisons: Sequence[Certificate]) -> str | None:
    """Why a comparison ends with status 1, in one sentence; None where it ends with 0.

    Something doesn't follow its oracle, or no launch of a configuration ended ok, and one failed.
    """
    statuses: dict[str, list[str]] = {}
    for record in records.values():
        workers = "1 worker" if record.world_size == 1 else f"{record.world_size} workers"
        exchange = "" if record.exchange else " without exchange"
        kind = "certificate" if record.task.checkpoint_steps else record.scaling
        configuration = f"{record.name} with {workers}{exchange}, {record.task.preset} {kind}"
        statuses.setdefault(configuration, []).append(record.status)
    failing = [name for name, ended in statuses.items() if "failed" in ended and "ok" not in ended]
    deviating = certificate.deviating(comparisons)
    causes = [f"no launch ended ok of {', '.join(failing)}"] if failing else []
    causes += [f"the oracle isn't followed by {', '.join(deviating)}"] if deviating else []
    text = "; ".join(causes)
    return f"{text[0].upper()}{text[1:]}." if text else None


def compute_oracles(launches: Iterable[PlannedLaunch]) -> None:
    """Compute, and keep for later, every oracle that the report on these launches will need and can have here."""
    for launch in launches:
        strategy, task = launch.strategy, launch.task
        is_asynchronous = not strategy.is_synchronous(launch.options) and launch.workers > 1
        # What is asynchronous is told by its final weights alone; else a network without ReLUs follows the trajectory.
        if not has_exchange(launch.options) or (not task.checkpoint if is_asynchronous else not is_smooth(task)):
            continue
        # Without data, or with a batch that doesn't divide, there is no launch to compare either.
        with contextlib.suppress(UserError):
            share = share_of(task, strategy.work, not is_asynchronous, 0, launch.workers)
            oracle_cache.of_batch(maths_of(task), share.global_batch, task.steps, with_state=is_asynchronous)


def _print_plan(console: Console, scope: Scope, rev: str | None) -> None:
    """What would be launched if no launch took any time, up to where rounds repeat themselves.

    With another commit, `rev`, its launches are among them.
    """
    schedule = ComparisonSchedule(scope, random.Random(0))
    places = {name: place for place, name in enumerate(catalogue.strategies())}
    stages, counts = dict[str, int](), Counter[tuple[int, int, *tuple[str, ...]]]()
    while (stage := schedule.next_stage()) and stage.title != MORE:
        for launch in stage.launches:
            assert isinstance(launch, PlannedLaunch), "This schedule has no probes."
            schedule.durations.add(launch, 0.0, ok=True)
            strategy, task = launch.strategy.name, launch.task
            row = (
                stage.name,
                name_of(strategy, label(launch.options)),
                task.preset,
                task.scaling,
                f"{launch.workers}" if launch.hosts is None else f"{launch.workers} on {launch.hosts}",
                "" if has_exchange(launch.options) else "off",
                launch.purpose,
            )
            key = (stages.setdefault(stage.name, len(stages)), places[strategy], *row)
            counts[key] += 2 if rev is not None and regression.is_paired(stage, launch) else 1
    table = Table("stage", "strategy", "preset", "scaling", "workers", "exchange", "purpose", "launches")
    for (_, _, *row), count in sorted(counts.items()):
        table.add_row(*row, str(count))
    console.print(table)
    if rev is not None:
        sentence = f"The rounds' launches that tell the speed count twice, since they are made with {rev} as well."
        console.print(sentence, markup=False)
    total = f"{counts.total()} launches"
    if scope.limit_seconds is None:
        console.print(f"{total}. The first of {scope.rounds} rounds will tell how long they take.")
        return
    console.print(
        f"Up to {total} in {scope.limit_seconds / 60:g} minutes, the report included: after the first round as many "
        "strategies, in this order with asynchronous ones last, as fit their rounds and certificates; then what else "
        "fits, and more rounds."
    )


def print_summary(console: Console, records: list[Record]) -> None:
    """The rate of each strategy with each number of workers, and how all launches ended."""
    launches: dict[tuple[str, str, str, int], list[Record]] = {}
    for record in records:
        if record.status == "ok" and record.checkpoint is None and record.exchange:
            key = (record.task.preset, record.scaling, record.name, record.world_size)
            launches.setdefault(key, []).append(record)
    table = Table("preset", "scaling", "strategy", "workers", "launches", "samples/s (median)")
    for key, alike in sorted(launches.items(), key=itemgetter(0)):
        # As the report has it: the rate of the median step.
        seconds = statistics.median(metrics.throughput(record).seconds_per_step for record in alike)
        table.add_row(*map(str, key), str(len(alike)), f"{alike[0].examples_per_step / seconds:,.0f}")
    console.print(table)
    counted(console, records)
    for record in records:
        if record.status == "failed":
            console.print(f"  failed: {record.name} with {record.world_size}: {record.reason}", markup=False)


if __name__ == "__main__":
    exit_with_one_line(main)
