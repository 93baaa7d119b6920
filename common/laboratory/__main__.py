"""Measure the collectives of every library, in rounds, print a table for each, and write the report.

To start it: `nox -s collectives`, or `nox -s collectives -- -b 8 -e 64M -f 2 --libraries gloo mpi`. An interrupted
session goes on where it stopped when it is started again with the same options.
"""

import dataclasses
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from common import command_line
from common.catalogue import ROOT
from common.errors import exit_with_one_line
from common.files import ensure_writable, locked, write_atomically
from common.hosts import cluster
from common.hosts.selection import Selection
from common.hosts.supervision import Cluster
from common.laboratory import tables
from common.laboratory.plan import PlannedSweep, Scope, chosen, rounds
from common.laboratory.record import CollectivesRecord, read_record, read_records
from common.laboratory.supervision import run_over_hosts, run_planned
from common.measurement import machine
from common.results_folder import order_seed, unfinished_or_new

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
        with machine.alone():
            sys.exit(
                cluster.run_on_virtual_hosts(selection, [sys.executable, "-m", "common.laboratory", *sys.argv[1:]])
            )
    ensure_writable(arguments.out)
    hosts = None if selection.is_here else cluster.find(console, selection, ranks)
    scope = dataclasses.replace(arguments.scope, spread=hosts.spread if hosts else None)
    with machine.alone():
        identity = repr(scope) + ("" if selection.is_here else f"\n{selection}")
        folder = unfinished_or_new(arguments.results, KIND, identity, "finished")
        refusal = f"Another session fills {folder}: wait for its end, or name another folder with --results."
        with locked(folder / "lock", refusal=refusal):
            records = _measure(console, arguments, scope, hosts, folder)
    for table in tables.of(records):
        console.print(table)
    statuses = [record.status for record in records.values()]
    counts = ", ".join(f"{statuses.count(each)} {each}" for each in ("ok", "unsupported", "failed"))
    console.print(f"{len(statuses)} launches: {counts}.")
    report = ["--results", str(folder.resolve()), "--out", str(arguments.out.resolve())]
    status = subprocess.run([sys.executable, "-m", "reports.collectives", *report], cwd=ROOT).returncode
    sys.exit(status or int("failed" in statuses))


def _measure(
    console: Console, arguments: Arguments, scope: Scope, hosts: Cluster | None, folder: Path
) -> dict[str, CollectivesRecord]:
    """Make every launch that has no good record yet; returns the records of all, by name."""
    seed = order_seed(folder, arguments.order_seed)
    again = command_line.of_session(KIND, dataclasses.replace(arguments, order_seed=seed))
    write_atomically(folder / "command.txt", f"{again}\n".encode())
    console.print(f"Records go to {folder}; the launches' order has seed {seed}.")
    make = partial(run_over_hosts, cluster=hosts) if hosts else run_planned
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        for number, launches in enumerate(rounds(scope, seed, len(machine.gpu_names())), start=1):
            console.print(f"round {number} of {scope.rounds}:")
            for planned in launches:
                _make(console, planned, folder, make)
    except KeyboardInterrupt:
        console.print("Interrupted: start it again with the same options and it goes on here.")
        sys.exit(130)
    (folder / "finished").touch()
    return read_records(folder)


def _make(
    console: Console, planned: PlannedSweep, folder: Path, make: Callable[[PlannedSweep, Path], CollectivesRecord]
) -> None:
    path = folder / f"{planned.name}.json"
    if path.exists() and read_record(path).status == "ok":
        return
    started = time.monotonic()
    record = make(planned, folder)
    measured = sum(cell.status == "ok" for cell in record.cells)
    said = f"{measured} cells" if record.status == "ok" else f"{record.reason} (log: {record.log})"
    console.print(f"{record.status:>11}  {planned.name}: {said} {time.monotonic() - started:>6.1f} s", markup=False)


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
