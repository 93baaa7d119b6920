"""Kill a worker of each framework's strategy, and tell who notices, what goes on, and whether the maths is right then.

To start it: `nox -s faults`, or `nox -s faults -- --profile full`. An interrupted session goes on where it stopped when
it is started again with the same options.
"""

import dataclasses
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import tyro
from msgspec import structs
from rich.console import Console
from rich.table import Table

from common.contract import fault
from common.contract.task import Task
from common.declarations import catalogue
from common.declarations.strategy import Strategy, label
from common.errors import UserError, exit_with_one_line
from common.files import ensure_writable
from common.launching.attempts import noticed
from common.launching.hosts.selection import Selection
from common.launching.planned import Hosts, PlannedLaunch
from common.launching.supervision import HERE, Allocation, run_planned
from common.records import manifest
from common.records.files import read_record, read_records, write_record
from common.records.recovery import Recovery, recovery_path
from common.records.recovery_rows import COLUMNS, Row, cells, rows, suffered
from common.records.training import Record
from common.sessions import placement
from common.sessions.comparison_scope import certificate_task
from common.sessions.session import Options, Output, Schedule, begin, console_for, counted, report, rounds_of

_STEP = 160
"""The step before which the fault comes, ten after a checkpoint."""

QUICK = (f"kill:rank=1,step={_STEP}",)
OF_HOSTS = (f"host:name=host2,step={_STEP}", f"cable:name=host2,step={_STEP},seconds=5")
FULL = (*QUICK, f"stop:rank=1,step={_STEP}", "slow:rank=1,factor=3", "late:rank=1,seconds=10", "missing:rank=1")


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What a session covers; every option narrows or widens its profile."""

    profile: Literal["quick", "full"] = "quick"
    """quick: a killed worker, one strategy of each framework, 6 rounds, about 12 minutes. full: hours; every fault,
    every strategy with several processes, 10 rounds."""
    strategies: tuple[str, ...] = ()
    """Only these strategies; none named: the profile's."""
    faults: tuple[str, ...] = ()
    """Only these faults, as --inject has them; none named: the profile's."""
    workers: int = 2
    """Workers of each."""
    repetitions: int | None = None
    """Rounds; none: the profile's. With fewer than 6 there are no intervals."""
    deadline_seconds: float = 60.0
    """When an attempt is ended in which nobody notices anything."""
    spread: tyro.conf.Suppress[Hosts | None] = None
    """The virtual hosts where there are any, which other options name."""

    def __post_init__(self) -> None:
        """Raises UserError for a strategy, a fault, hosts or a number that can't be had."""
        for name in self.strategies:
            strategy = catalogue.find(name)
            if strategy.work.is_one_process or (self.spread and not strategy.launcher.across_hosts):
                raise UserError(f"{name} has one process, with which all is lost: leave it out.")
        for each in self.faults:
            fault.parse(each)
        if self.rounds < 1 or self.workers < 2:
            raise UserError("--repetitions takes a whole number above 0, and --workers one above 1.")
        if self.spread and self.workers % self.spread.count:
            raise UserError(f"--workers {self.workers} can't be alike on {self.spread.count} hosts: give a multiple.")
        if self.spread and len(self.spread.bandwidths_bits_per_second) > 1:
            raise UserError("--bandwidth: faults take one at a time.")

    @property
    def rounds(self) -> int:
        """How many rounds it makes."""
        return (6 if self.profile == "quick" else 10) if self.repetitions is None else self.repetitions

    @property
    def chosen(self) -> list[Strategy]:
        """The strategies: those that are named, all, or one of each family, a quick one where it has any."""
        known = [each for each in catalogue.strategies().values() if not each.work.is_one_process]
        known = [each for each in known if not self.spread or each.launcher.across_hosts]
        if self.strategies:
            return [each for each in known if each.name in self.strategies]
        if self.profile == "full":
            return known
        first: dict[str, Strategy] = {}
        for each in sorted(known, key=lambda each: not each.quick):
            first.setdefault(each.family.title, each)
        return [*first.values()]

    @property
    def suffered(self) -> tuple[str, ...]:
        """The faults."""
        of_profile = QUICK if self.profile == "quick" else FULL
        return self.faults or (*of_profile, *(OF_HOSTS if self.spread else ()))


@dataclass(frozen=True)
class Arguments:
    """Options of a session."""

    scope: tyro.conf.OmitArgPrefixes[Scope] = field(default_factory=Scope)
    selection: tyro.conf.OmitArgPrefixes[Selection] = field(default_factory=Selection)
    output: tyro.conf.OmitArgPrefixes[Output] = field(
        default_factory=lambda: Output(out=Path("reports/out/faults.pdf"))
    )
    session: tyro.conf.OmitArgPrefixes[Options] = field(default_factory=Options)


def main() -> None:
    """Run what the command line asks for. Raises UserError for what a user can mend."""
    arguments = tyro.cli(Arguments, description=__doc__)
    console, output, selection = console_for(width=150), arguments.output, arguments.selection
    if not selection.is_here and selection.virtual_hosts is None:
        raise UserError("Faults over hosts take hosts that can be lost without harm: use --virtual-hosts.")
    workers = (arguments.scope.workers,)
    hosts, spread = placement.find(console, "common.sessions.faults", selection, workers, output.plan)
    scope = dataclasses.replace(arguments.scope, spread=spread)
    make = partial(make_on, dataclasses.replace(hosts, shares_disk=True) if hosts else HERE)
    if output.plan:
        launches = [*round_of(scope, certificate_task("digits", scope.workers), 1)]
        table = Table("launch of a round", "fault", "started again", "own way")
        for each in launches:
            table.add_row(each.strategy.name, each.task.inject or "", str(each.task.restarts), label(each.options))
        console.print(table)
        console.print(f"{scope.rounds} rounds of {len(launches)} launches.")
        return
    ensure_writable(output.out)
    identity = repr(scope) + ("" if selection.is_here else f"\n{selection}")
    with begin(console, "faults", arguments, identity) as session:
        stages = rounds_of(scope.rounds, session.order_seed, partial(round_of, scope, task_of(scope)))
        session.run(Schedule[PlannedLaunch, Record](stages), make, partial(read_record, kind=Record))
    records = read_records(session.folder, Record)
    print_rows(console, rows(suffered(session.folder, records)))
    # A launch that ends for good by its fault is what was to be found out.
    failed = counted(console, (each for each in records.values() if each.task.inject is None))
    sys.exit(report("reports.faults", session.folder, output.out) or failed)


def round_of(scope: Scope, task: Task, repetition: int) -> Iterator[PlannedLaunch]:
    """The launches of a round: of each strategy undisturbed, with each fault and started again, and in its own ways."""
    for strategy in scope.chosen:
        plain = strategy.options(**strategy.synchronous_with)
        launch = PlannedLaunch(
            strategy=strategy,
            workers=scope.workers,
            purpose="throughput",
            repetition=repetition,
            task=dataclasses.replace(task, restarts=1),
            options=plain,
            hosts=scope.spread and scope.spread.count,
            bandwidth_bits_per_second=scope.spread and scope.spread.bandwidths_bits_per_second[0],
        )
        yield launch
        for each in scope.suffered:
            yield dataclasses.replace(launch, task=dataclasses.replace(launch.task, inject=each))
            for own in strategy.recovers_with:
                yield dataclasses.replace(
                    launch, task=dataclasses.replace(task, inject=each), options=strategy.options(**own)
                )


def make_on(allocation: Allocation[Any], planned: PlannedLaunch, folder: Path) -> Record:
    """Make one launch and return its record; its account says then who noticed the fault, and in which words."""
    record, path = run_planned(planned, folder, allocation), recovery_path(folder / f"{planned.name}.json")
    if path.exists():
        account = read_record(path, Recovery)
        log = path.with_suffix(".log").read_text(encoding="utf-8", errors="replace")
        by, message = noticed(account, log, planned.strategy.launcher, planned.task.deadline_seconds)
        write_record(path, structs.replace(account, repetition=planned.repetition, noticed_by=by, message=message))
        manifest.note(folder, [path])
    return record


def print_rows(console: Console, found: list[Row]) -> None:
    """The table of capabilities, as the report has it."""
    table = Table(*COLUMNS)
    for row in found:
        table.add_row(*cells(row))
    console.print(table)


def task_of(scope: Scope) -> Task:
    """What every launch trains: a certificate's task in shorter windows, with a checkpoint every 50 steps."""
    return dataclasses.replace(
        certificate_task("digits", scope.workers),
        warmup_steps=10,
        window_steps=10,
        checkpoint_steps=50,
        deadline_seconds=scope.deadline_seconds,
    )


if __name__ == "__main__":
    exit_with_one_line(main)
