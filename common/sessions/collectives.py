"""Measure the collectives of every library, in rounds, print a table for each, and write the report.

To start it: `nox -s collectives`, or `nox -s collectives -- -b 8 -e 64M -f 2 --libraries gloo mpi`. An interrupted
session goes on where it stopped when it is started again with the same options.
"""

import dataclasses
import subprocess
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
from common.launching.collectives_supervision import run_over_hosts, run_planned
from common.launching.hosts import cluster
from common.launching.hosts.selection import Selection
from common.measurement import machine
from common.paths import ROOT
from common.records.collectives import CollectivesRecord
from common.records.files import read_record, read_records
from common.sessions import collectives_tables, session
from common.sessions.collectives_plan import Scope, chosen, rounds

KIND = "collectives"


@dataclass(frozen=True)
class Arguments:
    """Options of a session."""

    scope: tyro.conf.OmitArgPrefixes[Scope] = field(default_factory=Scope)
    selection: tyro.conf.OmitArgPrefixes[Selection] = field(default_factory=Selection)
    plan: bool = False
    """Print the launches, and run nothing."""
    results: Path = Path("results")
    """Folder in which each session gets a folder of its own."""
    out: Path = Path("reports/out/collectives.pdf")
    """The report, with an HTML page beside it."""
    order_seed: int | None = None
    """Seed of the order of the launches; none: a new one, which the folder keeps."""


def parse(options: Sequence[str]) -> Arguments:
    """What these options ask for. Raises UserError for a value that can't be meant."""
    return tyro.cli(Arguments, description=__doc__, args=list(options), config=(tyro.conf.EnumChoicesFromValues,))


def main() -> None:
    """Run what the command line asks for. Raises UserError for what a user can mend."""
    arguments = parse(sys.argv[1:])
    console = Console(width=None if sys.stdout.isatty() else 160)
    selection, ranks = arguments.selection, max(arguments.scope.ranks)
    if arguments.plan:
        spread = cluster.spread_of(selection, ranks) if selection.virtual_hosts is not None else None
        _print_plan(console, dataclasses.replace(arguments.scope, spread=spread))
        return
    if cluster.is_to_be_made(selection):
        # On their head this program runs once more, and finds hosts like any others.
        command = [sys.executable, "-m", "common.sessions.collectives", *sys.argv[1:]]
        with machine.alone() as lock:
            sys.exit(cluster.run_on_virtual_hosts(selection, command, lock))
    ensure_writable(arguments.out)
    hosts = None if selection.is_here else cluster.find(console, selection, ranks)
    scope = dataclasses.replace(arguments.scope, spread=hosts.spread if hosts else None)
    identity = repr(scope) + ("" if selection.is_here else f"\n{selection}")
    make = partial(run_over_hosts, cluster=hosts) if hosts else run_planned
    gpus = len(machine.gpu_names())

    def in_rounds(seed: int, _: Path) -> list:
        return session.numbered(rounds(scope, seed, gpus))

    folder = session.run(
        console, KIND, arguments, identity, in_rounds, make, partial(read_record, kind=CollectivesRecord)
    )
    records = read_records(folder, CollectivesRecord)
    for table in collectives_tables.of(records):
        console.print(table)
    failed = session.ended(console, records.values())
    report = ["--results", str(folder.resolve()), "--out", str(arguments.out.resolve())]
    status = subprocess.run([sys.executable, "-m", "reports.collectives", *report], cwd=ROOT).returncode
    sys.exit(status or failed)


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
