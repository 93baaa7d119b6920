"""Multiply matrices over workers, by rows and by reduction, and tell from which size each pays, and why.

To start it: `nox -s matrix_products`, or `nox -s matrix_products -- --sizes 64 128 256 --repetitions 6`. An interrupted
session goes on where it stopped when it is started again with the same options.
"""

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import tyro
from msgspec import structs
from rich.console import Console
from rich.table import Table

from common.command_line import options_of
from common.declarations.catalogue import ways
from common.declarations.products import Products, check_workers
from common.declarations.way import Way
from common.errors import UserError, exit_with_one_line
from common.files import ensure_writable
from common.launching.ending import Ended
from common.launching.hosts import slurm
from common.launching.hosts.slurm import SlurmOptions
from common.launching.planned import Job
from common.launching.supervision import run_planned
from common.measurement.matrix_products import declared
from common.records import matrix_rows
from common.records.files import from_json, read_record, write_record
from common.records.matrix_products import MatrixRecord
from common.records.matrix_rows import Row
from common.records.presentation import read_presented
from common.records.site import Site
from common.sessions import placement, submission
from common.sessions.session import Options, Output, Schedule, Stage, begin, console_for, counted, report, rounds_of
from common.statistics.intervals import FEWEST_LAUNCHES

_DASH = "\N{EN DASH}"


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What a session multiplies, in which ways, and how often."""

    sizes: tuple[int, ...] = Products.sizes
    """Rows and columns of the square matrices."""
    naive_sizes: tuple[int, ...] = (16, 32, 64, 128)
    """Those that the triple loop multiplies, a step at a time."""
    workers: int = 2
    """Processes that share a product."""
    repetitions: int = 6
    """Launches of each way, each in fresh processes; with fewer than 6 nothing is told."""
    iterations: int = Products.iterations
    """Timed products of each size in each launch."""
    seed: int = Products.seed
    """Seed of the matrices."""

    def __post_init__(self) -> None:
        """Raises UserError for any value that can't be meant."""
        if self.repetitions < 1:
            raise UserError(f"--repetitions {self.repetitions}: give a whole number above 0.")
        for way in ways().values():
            products = self.products(way)
            check_workers(way, products, products.workers or 1)

    def products(self, way: Way) -> Products:
        """What a launch of this way multiplies. Raises UserError for a value that can't be meant."""
        return Products(
            sizes=tuple(sorted({*(self.naive_sizes if way.kind == "naive" else self.sizes)})),
            iterations=self.iterations,
            workers=self.workers if way.is_distributed else 1,
            seed=self.seed,
        )


@dataclass(frozen=True)
class Planned:
    """One launch of a session. Its name is that of its record and its log."""

    way: Way
    products: Products
    repetition: int

    @property
    def name(self) -> str:
        """Unique in a session, and readable in a list of files."""
        return f"{self.way.name}-{self.products.workers}w-{self.repetition:02d}"

    def job(self, folder: Path) -> Job:
        """What is started."""
        # Named otherwise until it's whole: what ranks leave doesn't say which launch of several it is.
        path = folder / f"{self.name}.launch"
        products = dataclasses.replace(self.products, record=path)
        return Job(
            program=self.way,
            limits=products,
            options=self.way.options,
            arguments=options_of(products, Products()),
            files=[path.name],
        )

    def record(self, folder: Path, ended: Ended, started_at: str, site: Site | None = None) -> MatrixRecord:
        """The record that it left, with which launch it is; or else one that is made here of what is declared."""
        path, left = folder / f"{self.name}.json", folder / f"{self.name}.launch"
        about: dict[str, object] = {"repetition": self.repetition, "log": f"{self.name}.log"}
        if ended.status == "ok":
            record = structs.replace(read_record(left, MatrixRecord), **about)
        else:
            about |= {"status": ended.status, "reason": ended.reason, "started_at": started_at}
            record = from_json(declared(self.way, self.products, self.products.workers or 1) | about, MatrixRecord)
        write_record(path, record)
        left.unlink(missing_ok=True)
        return read_record(path, MatrixRecord)


@dataclass(frozen=True)
class Arguments:
    """Options of a session."""

    scope: tyro.conf.OmitArgPrefixes[Scope] = field(default_factory=Scope)
    output: tyro.conf.OmitArgPrefixes[Output] = field(
        default_factory=lambda: Output(out=Path("reports/out/matrix_products.svg"))
    )
    session: tyro.conf.OmitArgPrefixes[Options] = field(default_factory=Options)
    allocation: tyro.conf.OmitArgPrefixes[SlurmOptions] = field(default_factory=SlurmOptions)


def rounds(scope: Scope, seed: int) -> list[Stage[Planned]]:
    """Rounds of every way once, in an order that the seed shuffles."""
    return rounds_of(
        scope.repetitions,
        seed,
        lambda repetition: [Planned(way, scope.products(way), repetition) for way in ways().values()],
    )


def main() -> None:
    """Run what the command line asks for. Raises UserError for what a user can mend."""
    arguments = tyro.cli(Arguments, description=__doc__, args=submission.own_words(sys.argv[1:]))
    console, scope, output = console_for(width=150), arguments.scope, arguments.output
    if arguments.allocation.submit:
        submission.submit(console, "matrix_products", "common.sessions.matrix_products", arguments)
        return
    if output.plan:
        table = Table("way", "what it is", "sizes", "workers", "launches")
        for way in ways().values():
            products = scope.products(way)
            sizes = " ".join(map(str, products.sizes))
            table.add_row(way.name, way.title, sizes, str(products.workers), str(scope.repetitions))
        console.print(table)
        return
    ensure_writable(output.out)
    hosts = placement.on_one_host(console, arguments.allocation)
    job = slurm.job() if arguments.allocation.slurm else None
    with begin(console, "matrix_products", arguments, repr(scope) + placement.kind_of(hosts), job=job) as session:
        schedule = Schedule[Planned, MatrixRecord](rounds(scope, session.order_seed))
        session.run(schedule, partial(run_planned, allocation=hosts), partial(read_record, kind=MatrixRecord))
    records, status = read_presented(session.folder, MatrixRecord), 0
    if rows := matrix_rows.rows(records):
        print_rows(console, rows)
        status = report("reports.matrix_figures", session.folder, output.out)
    sys.exit(counted(console, records.values()) or status)


def print_rows(console: Console, rows: Sequence[Row]) -> None:
    """What each product takes and its ratio to alone; from which size each way pays, and why; how time grows."""
    groups = matrix_rows.by_way(rows)
    table = Table(title="C = A B, from the last rank's arrival until rank 0 has C", title_justify="left")
    table.add_column("way")
    for name in ("size", "n", "ms", "95 %", "alone, ms", "times as fast", "95 %"):
        table.add_column(name, justify="right")
    table.add_column("parts on rank 0, %")
    for of_way in groups:
        for place, row in enumerate(of_way):
            title = row.title + ("" if row.workers == 1 else f", {row.workers} workers")
            title += "\N{DAGGER}" if row.oversubscribed else ""
            table.add_row("" if place else title, *_cells(row))
        table.add_section()
    console.print(table)
    shared = [of_way for of_way in groups if of_way[0].kind in ("rows", "reduction")]
    for sentence in [*map(matrix_rows.verdict_in_words, shared), *matrix_rows.growth_in_words(rows)]:
        console.print(sentence, markup=False, highlight=False)
    for of_way in groups:
        fitted = matrix_rows.exponent(of_way) if of_way[0].kind in ("naive", "alone") else None
        if fitted:
            value = fitted.value
            no_interval = f"no interval below {FEWEST_LAUNCHES}"
            interval = no_interval if value.low is None else f"{value.low:.2f} to {value.high:.2f}"
            spread = f"sizes {fitted.sizes[0]} to {fitted.sizes[-1]}, n = {fitted.launches} launches"
            sentence = f"{fitted.title}: time grows as size^{value.value:.2f} ({interval}; {spread})."
            console.print(sentence, markup=False, highlight=False)
    if any(row.oversubscribed for row in rows):
        console.print("\N{DAGGER} more threads than cores")


def _cells(row: Row) -> list[str]:
    ratio, ratio_interval, judgement = _DASH, _DASH, row.judgement
    if judgement:
        ratio = f"{judgement.ratio:.3f}"
        if judgement.n >= FEWEST_LAUNCHES:
            ratio_interval = f"{judgement.low:.3f} to {judgement.high:.3f}"
    low, high = row.seconds.low, row.seconds.high
    return [
        str(row.size),
        str(row.seconds.n),
        _milliseconds(row.seconds.median),
        _DASH if low is None or high is None else f"{_milliseconds(low)} to {_milliseconds(high)}",
        _milliseconds(row.base_seconds.median) if row.base_seconds else _DASH,
        ratio,
        ratio_interval,
        ", ".join(f"{part} {100 * share:.0f}" for part, share in row.shares.items()),
    ]


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.4g}"


if __name__ == "__main__":
    exit_with_one_line(main)
