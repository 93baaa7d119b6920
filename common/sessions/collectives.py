"""Measure the collectives of every library, in rounds, print a table for each, and write the report.

To start it: `nox -s collectives`, or `nox -s collectives -- -b 8 -e 64M -f 2 --libraries gloo mpi`. An interrupted
session goes on where it stopped when it is started again with the same options.
"""

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from common.errors import exit_with_one_line
from common.files import ensure_writable
from common.launching.hosts.selection import Selection
from common.launching.supervision import run_planned
from common.measurement import machine
from common.records.collectives import CollectivesRecord
from common.records.files import read_record
from common.records.presentation import read_presented
from common.sessions import collectives_tables, placement
from common.sessions.collectives_plan import Scope, chosen, rounds
from common.sessions.session import Options, Output, Rounds, begin, console_for, counted, numbered, report


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
    arguments = parse(sys.argv[1:])
    console, selection, output = console_for(width=160), arguments.selection, arguments.output
    ranks = max(arguments.scope.ranks)
    hosts, spread = placement.find(console, "common.sessions.collectives", selection, ranks, output.plan)
    scope = dataclasses.replace(arguments.scope, spread=spread)
    if output.plan:
        _print_plan(console, scope)
        return
    ensure_writable(output.out)
    identity = repr(scope) + ("" if selection.is_here else f"\n{selection}")
    make = partial(run_planned, allocation=hosts) if hosts else run_planned
    with begin(console, "collectives", arguments, identity) as session:
        planned = rounds(scope, session.order_seed, len(machine.gpu_names()))
        session.run(Rounds(numbered(planned)), make, partial(read_record, kind=CollectivesRecord))
    records = read_presented(session.folder, CollectivesRecord)
    for table in collectives_tables.of(records):
        console.print(table)
    failed = counted(console, records.values())
    sys.exit(report("reports.collectives", session.folder, output.out) or failed)


def _print_plan(console: Console, scope: Scope) -> None:
    """Every library with what is measured of it, and how many launches it has."""
    launches = [launch for each in rounds(scope, 0, len(machine.gpu_names())) for launch in each]
    table = Table("library", "what it is", "collectives", "sizes", "ranks", "launches")
    sweep = scope.sweep(scope.ranks[0])
    sizes = f"{len(sweep.size_bytes)}, from {sweep.size_bytes[0]:,} to {sweep.size_bytes[-1]:,} B"
    for library in chosen(scope):
        collectives = ", ".join(each for each in sweep.collectives if each in library.collectives)
        count = sum(launch.library is library for launch in launches)
        table.add_row(library.name, library.title, collectives, sizes, ", ".join(map(str, scope.ranks)), str(count))
    console.print(table)
    console.print(f"{len(launches)} launches.")


if __name__ == "__main__":
    exit_with_one_line(main)
