"""Measure the collectives of every library, in rounds, print a table for each, and write the report.

To start it: `nox -s collectives`, or `nox -s collectives -- -b 8 -e 64M -f 2 --libraries gloo mpi`. An interrupted
session goes on where it stopped when it is started again with the same options.
"""

import dataclasses
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table

from common.contract.collectives import Collective
from common.declarations import catalogue
from common.declarations.library import Library
from common.declarations.sweep import Sweep, Type
from common.errors import UserError, exit_with_one_line
from common.files import ensure_writable
from common.launching.hosts import slurm
from common.launching.hosts.selection import Selection
from common.launching.planned import Hosts, PlannedSweep
from common.launching.supervision import run_planned
from common.measurement import machine
from common.records.collectives import CollectivesRecord
from common.records.files import read_record
from common.records.presentation import read_presented
from common.sessions import collectives_tables, placement, submission
from common.sessions.comparison_scope import placements
from common.sessions.session import Options, Output, Schedule, Stage, begin, console_for, counted, report, rounds_of

_QUICK = Sweep(sizes=("8", "4K", "256K", "4M"))
_FULL = Sweep(collectives=tuple(Collective), max_bytes="64M", deadline_seconds=3600.0)


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What a session measures; every option narrows or widens its profile. The short ones are those of nccl-tests."""

    profile: Literal["quick", "full"] = "quick"
    """quick: all-reduce, all-gather and broadcast at 8 B, 4 KiB, 256 KiB and 4 MiB, 2 ranks, 6 launches of each
    library, in about 5 minutes. full: hours; every collective from 8 B to 64 MiB, 2 and 4 ranks, 10 launches."""
    libraries: tuple[str, ...] = ()
    """Only these libraries; none named: all but the algorithms by hand, such as ring."""
    workers: tuple[int, ...] = ()
    """Numbers of ranks; none: the profile's."""
    repetitions: int | None = None
    """Launches of each library with each number of ranks; none: the profile's."""
    collectives: tuple[Collective, ...] = ()
    """Only these; none named: the profile's."""
    sizes: tuple[str, ...] = ()
    """Exactly these sizes, such as 8 4K 1M."""
    min_bytes: Annotated[str | None, tyro.conf.arg(aliases=("-b",))] = None
    """Smallest size, such as 8, 4K or 1M; none: 8."""
    max_bytes: Annotated[str | None, tyro.conf.arg(aliases=("-e",))] = None
    """Largest size; none: 4M (quick) or 64M (full)."""
    step_factor: Annotated[int | None, tyro.conf.arg(aliases=("-f",))] = None
    """Each size is this times the one before; none: 2."""
    iterations: Annotated[int, tyro.conf.arg(aliases=("-n",))] = _QUICK.iterations
    """Timed calls at each size in each launch."""
    warmup_iterations: Annotated[int, tyro.conf.arg(aliases=("-w",))] = _QUICK.warmup_iterations
    """Calls at each size before them."""
    check: Annotated[bool, tyro.conf.arg(aliases=("-c",))] = True
    """Compare what every rank got in every timed call with NumPy, outside the clock."""
    data_type: Annotated[Type, tyro.conf.arg(aliases=("-d",))] = _QUICK.data_type
    """Type of the elements."""
    spread: tyro.conf.Suppress[Hosts | None] = None
    """The hosts where there are several, which other options name."""

    def __post_init__(self) -> None:
        """Raises UserError for a value that can't be meant."""
        if self.repetitions is not None and self.repetitions < 1:
            raise UserError(f"--repetitions {self.repetitions}: give a whole number above 0.")
        given = [name for name in ("min_bytes", "max_bytes", "step_factor") if getattr(self, name) is not None]
        if self.sizes and given:
            raise UserError(f"--sizes and --{given[0].replace('_', '-')}: give one of them.")
        for name in self.libraries:
            catalogue.find_library(name)
        for workers in self.ranks:
            self.sweep(workers)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The numbers of ranks, in ascending order."""
        return tuple(sorted({*self.workers})) or ((2,) if self.profile == "quick" else (2, 4))

    @property
    def rounds(self) -> int:
        """How many launches each library has with each number of ranks."""
        return self.repetitions or (6 if self.profile == "quick" else 10)

    def sweep(self, workers: int) -> Sweep:
        """What a launch with so many ranks measures. Raises UserError for a value that can't be meant."""
        profile = _QUICK if self.profile == "quick" else _FULL
        has_series = any(value is not None for value in (self.min_bytes, self.max_bytes, self.step_factor))
        return dataclasses.replace(
            profile,
            sizes=self.sizes if self.sizes or has_series else profile.sizes,
            min_bytes=profile.min_bytes if self.min_bytes is None else self.min_bytes,
            max_bytes=profile.max_bytes if self.max_bytes is None else self.max_bytes,
            step_factor=profile.step_factor if self.step_factor is None else self.step_factor,
            collectives=self.collectives or profile.collectives,
            iterations=self.iterations,
            warmup_iterations=self.warmup_iterations,
            check=self.check,
            data_type=self.data_type,
            workers=workers,
        )

    @property
    def chosen(self) -> Sequence[Library]:
        """The libraries that are named, or those that are measured by default."""
        by_default = [library for library in catalogue.libraries().values() if library.by_default]
        return [catalogue.find_library(name) for name in self.libraries] or by_default


@dataclass(frozen=True)
class Arguments:
    """Options of a session."""

    scope: tyro.conf.OmitArgPrefixes[Scope] = field(default_factory=Scope)
    selection: tyro.conf.OmitArgPrefixes[Selection] = field(default_factory=Selection)
    output: tyro.conf.OmitArgPrefixes[Output] = field(
        default_factory=lambda: Output(out=Path("reports/out/collectives.pdf"))
    )
    session: tyro.conf.OmitArgPrefixes[Options] = field(default_factory=Options)


def parse(options: Sequence[str]) -> Arguments:
    """What these options ask for. Raises UserError for a value that can't be meant."""
    return tyro.cli(Arguments, description=__doc__, args=list(options), config=(tyro.conf.EnumChoicesFromValues,))


def main() -> None:
    """Run what the command line asks for. Raises UserError for what a user can mend."""
    arguments, module = parse(submission.own_words(sys.argv[1:])), "common.sessions.collectives"
    console, selection, output = console_for(width=160), arguments.selection, arguments.output
    if selection.submit:
        submission.submit(console, "collectives", module, arguments)
        return
    hosts, spread = placement.find(console, module, selection, arguments.scope.ranks, output.plan)
    scope = dataclasses.replace(arguments.scope, spread=spread)
    if output.plan:
        _print_plan(console, scope)
        return
    ensure_writable(output.out)
    identity = repr(scope) + ("" if selection.is_here else f"\n{selection}{placement.kind_of(hosts)}")

    def make(launch: PlannedSweep, folder: Path) -> CollectivesRecord:
        return run_planned(launch, folder, hosts) if hosts else run_planned(launch, folder)

    job = slurm.job() if selection.slurm else None
    with begin(console, "collectives", arguments, identity, job=job) as session:
        planned = rounds(scope, session.order_seed, len(machine.gpu_names()))
        session.run(Schedule(planned), make, partial(read_record, kind=CollectivesRecord))
    records = read_presented(session.folder, CollectivesRecord)
    for table in collectives_tables.of(records):
        console.print(table)
    failed = counted(console, records.values())
    sys.exit(report("reports.collectives", session.folder, output.out) or failed)


def rounds(scope: Scope, seed: int, gpus: int) -> list[Stage[PlannedSweep]]:
    """Rounds of all libraries with every number of ranks, in an order that the seed shuffles.

    What can't be, such as a library that joins GPUs where there are too few, is launched once, which says so.
    """

    def launches_of(repetition: int) -> Iterator[PlannedSweep]:
        for library in scope.chosen:
            for size in (size for workers in scope.ranks for size in placements(scope.spread, workers)):
                can_be_had = size.hosts == 1 or library.launcher.across_hosts is not None
                can_be_had &= not library.needs_gpus or gpus >= size.workers
                if repetition == 1 or can_be_had:
                    hosts = size.hosts if scope.spread else None
                    sweep = scope.sweep(size.workers)
                    yield PlannedSweep(library, sweep, repetition, hosts, size.bandwidth_bits_per_second)

    return rounds_of(scope.rounds, seed, launches_of)


def _print_plan(console: Console, scope: Scope) -> None:
    """Every library with what is measured of it, and how many launches it has."""
    launches = [launch for stage in rounds(scope, 0, len(machine.gpu_names())) for launch in stage.launches]
    table = Table("library", "what it is", "collectives", "sizes", "ranks", "launches")
    sweep = scope.sweep(scope.ranks[0])
    sizes = f"{len(sweep.size_bytes)}, from {sweep.size_bytes[0]:,} to {sweep.size_bytes[-1]:,} B"
    for library in scope.chosen:
        collectives = ", ".join(each for each in sweep.collectives if each in library.collectives)
        count = sum(launch.library is library for launch in launches)
        table.add_row(library.name, library.title, collectives, sizes, ", ".join(map(str, scope.ranks)), str(count))
    console.print(table)
    console.print(f"{len(launches)} launches.")


if __name__ == "__main__":
    exit_with_one_line(main)
