"""Multiply matrices over workers, and tell from which size on that pays, and why (about two minutes).

To start it: `nox -s matrix_products`, or `nox -s matrix_products -- --sizes 64 128 256 --repetitions 6`. An interrupted
session goes on where it stopped when it is started again with the same options.
"""

import dataclasses
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd
from msgspec import structs

from common.command_line import options_of
from common.declarations.catalogue import ways
from common.declarations.products import MatrixProgram, Products, check_workers
from common.errors import exit_with_one_line
from common.launching.exit_cause import Ended
from common.launching.planned import Job
from common.measurement.matrix_calls import declared
from common.observations import answers, table
from common.observations.display import Display, Measure, Series
from common.observations.table import Missing, Observation
from common.records.files import from_json, read_record, write_record
from common.records.matrix_products import MatrixRecord, call_seconds, part_shares
from common.records.site import Site
from common.sessions.experiment import Experiment, in_rounds, run

LAUNCHES = "ways"
"""The programs of the catalogue's that it launches where none is named."""

_KINDS = ("naive", "alone", "rows", "reduction")
"""In the order in which introductions tell of them."""

_ITEM_BYTES = 4
"""Of an element in float32."""


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
        for way in ways().values():
            products = self.products(way)
            check_workers(way, products, products.workers or 1)

    def products(self, way: MatrixProgram) -> Products:
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

    way: MatrixProgram
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
            workload=products,
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


def launches(scope: Scope, repetition: int) -> Iterable[Planned]:
    """Every way once."""
    return [Planned(way, scope.products(way), repetition) for way in ways().values()]


def observe(launch: str, record: MatrixRecord) -> Iterator[Observation | Missing]:
    """Of each size the median over the launch's calls, and each part's share of that on rank 0."""
    series = _series_of(record)
    if record.status != "ok":
        gone = partial(Missing, series=series, x=math.nan, round=record.repetition)
        yield gone(status=record.status, reason=record.reason or "")
    row = partial(Observation, series=series, round=record.repetition, launch=launch)
    for cell in record.cells:
        row = partial(row, x=cell.size, oversubscribed=record.oversubscribed)
        yield row(measure="seconds", value=statistics.median(call_seconds(cell)))
        for part, share in part_shares(cell).items():
            yield row(measure="share", part=part, value=share)


def show(records: Sequence[MatrixRecord], observed: pd.DataFrame) -> Display:
    """Ways that share a product are held to one process of their family; of the others it is told how time grows."""
    ordered = sorted(records, key=lambda record: (_KINDS.index(record.kind), record.title))
    by_series = {_series_of(record): record for record in ordered}
    alone = {record.family: name for name, record in by_series.items() if record.kind == "alone"}
    shared = {name: record for name, record in by_series.items() if record.kind in ("rows", "reduction")}
    series = [
        Series(name=name, colors=record.colors, base=alone.get(record.family, ""), growth=False)
        if name in shared
        else Series(name=name)
        for name, record in by_series.items()
    ]
    display = Display(
        title="C = A B over workers: from which size it pays",
        contender="way",
        x="rows and columns",
        series=series,
        measures=[Measure(name="seconds", label="time, ms", factor=1e3)],
        growth="exponents",
        method=[
            "A product is clocked from the last rank's arrival until rank 0 has C. What rank 0 did before the last "
            "rank began counts nowhere, and where it waits for a slower rank counts as the part that it waits in.",
            "A launch counts by the median over its calls.",
        ],
    )
    judged = answers.beside_base(table.whole(observed, "seconds"), display.bases)
    sizes = sorted({*judged["x"]})
    numbers_of_workers = sorted({each.world_size for each in shared.values()}) if sizes else []
    intensities = [_intensity(workers, sizes) for workers in numbers_of_workers]
    return structs.replace(display, method=[*display.method, *intensities])


def moved_bytes(size: int, workers: int) -> float:
    """What has to go from process to process at least for one product over N workers: 4 n^2 (N - 1) (1 + 2 / N) bytes.

    By rows: all ranks' rows of A but rank 0's, (N - 1) / N of it, B to each of the others, and as many rows of C as of
    A. By reduction as many of A and of B, and each other rank's product. It is the same sum.
    """
    return _ITEM_BYTES * size**2 * (workers - 1) * (1 + 2 / workers)


def _intensity(workers: int, sizes: Sequence[int]) -> str:
    """How many operations there are for each byte that has to be moved, at the smallest size and the largest."""
    ends = dict.fromkeys([int(sizes[0]), int(sizes[-1])])
    # n^3 multiplications and as many additions.
    each = " and ".join(f"{2 * size**3 / moved_bytes(size, workers):,.0f}" for size in ends)
    return (
        f"With {workers} workers both ways move 4 n\N{SUPERSCRIPT TWO} (N - 1) (1 + 2 / N) bytes at least for 2 "
        f"n\N{SUPERSCRIPT THREE} operations: {each} operations for each byte at size {' and '.join(map(str, ends))}."
    )


def _series_of(record: MatrixRecord) -> str:
    return (record.title or record.way) + ("" if record.world_size == 1 else f", {record.world_size} workers")


EXPERIMENT = Experiment(
    name="matrix_products",
    about=__doc__ or "",
    scope=Scope,
    record=MatrixRecord,
    stages=in_rounds(launches),
    observe=observe,
    show=show,
)


if __name__ == "__main__":
    exit_with_one_line(partial(run, EXPERIMENT))
