"""Measure single collectives of every library, in about six minutes (`-- --plan` tells more).

To start it: `nox -s collectives`, or `nox -s collectives -- -b 8 -e 64M -f 2 --libraries gloo mpi`. An interrupted
session goes on where it stopped when it is started again with the same options.
"""

import dataclasses
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import pandas as pd
import tyro
from msgspec import structs

from common.contract.collective_meanings import MEANINGS, Collective
from common.declarations import catalogue
from common.declarations.library import Library
from common.declarations.sweep import Sweep, Type
from common.errors import UserError, exit_with_one_line
from common.launching.planned import Hosts, PlannedSweep
from common.measurement import machine
from common.observations.display import Display, Measure, Series, Table
from common.observations.table import Missing, Observation
from common.records.collective_times import Cell, CollectivesRecord, arrival_seconds, transfer_seconds
from common.records.site import hosts_in_words
from common.sessions.comparison_scope import placements
from common.sessions.experiment import Experiment, in_rounds, run

_QUICK = Sweep(sizes=("8", "4K", "256K", "4M"))
_SERIES = ("min_bytes", "max_bytes", "step_factor")
"""The options that make a series of sizes."""

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
        given = [name for name in _SERIES if getattr(self, name) is not None]
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

    def sweep(self, workers: int) -> Sweep:
        """What a launch with so many ranks measures. Raises UserError for a value that can't be meant."""
        profile = _QUICK if self.profile == "quick" else _FULL
        names = [*_SERIES, "sizes", "collectives", "iterations", "warmup_iterations", "check", "data_type"]
        asked = {name: value for name in names if (value := getattr(self, name)) not in (None, ())}
        if asked.keys() & {*_SERIES}:
            # A series takes the place of the profile's sizes.
            profile = dataclasses.replace(profile, sizes=())
        return dataclasses.replace(profile, workers=workers, **asked)

    @property
    def chosen(self) -> Sequence[Library]:
        """The libraries that are named, or those that are measured by default."""
        by_default = [library for library in catalogue.libraries().values() if library.by_default]
        return [catalogue.find_library(name) for name in self.libraries] or by_default


def launches(scope: Scope, repetition: int) -> Iterator[PlannedSweep]:
    """All libraries with every number of ranks.

    What can't be, such as a library that joins GPUs where there are too few, is launched once, which says so.
    """
    gpus = len(machine.gpu_names())
    for library in scope.chosen:
        for size in (size for workers in scope.ranks for size in placements(scope.spread, workers)):
            can_be_had = size.hosts == 1 or library.launcher.across_hosts is not None
            can_be_had &= not library.needs_gpus or gpus >= size.workers
            if repetition == 1 or can_be_had:
                hosts = size.hosts if scope.spread else None
                sweep = scope.sweep(size.workers)
                yield PlannedSweep(library, sweep, repetition, hosts, size.bandwidth_bits_per_second)


def observe(launch: str, record: CollectivesRecord) -> Iterator[Observation | Missing]:
    """Of each cell the median over its calls, by how much ranks came late, and what was sent, by rank.

    Each rank's clock is set right by its host's offset. A call that took no time at all by clocks that are less sure
    than it is short is missing. Raises UserError for a replay of a strategy's step.
    """
    if record.replayed:
        raise UserError(
            f"{launch} replays a strategy's step: give the session's folder to `nox -s report -- --results`."
        )
    world, unsure = _world(record), _clock_uncertainty(record)
    gone = partial(Missing, series=record.library, round=record.repetition)
    if record.status != "ok":
        yield gone(world=world, x=math.nan, status=record.status, reason=record.reason or "")
    for cell in record.cells:
        status, reason, values = cell.status, cell.reason or "", dict[str, float | None]()
        if status == "ok":
            values = _values(record, cell)
            if (values["seconds"] or 0.0) <= 0:
                status, reason = "failed", f"The hosts' clocks may be {unsure:.2g} s apart, and it took less."
        if status != "ok":
            yield gone(subject=cell.collective, world=world, x=cell.size_bytes, status=status, reason=reason)
            continue
        row = partial(Observation, subject=cell.collective, world=world, x=cell.size_bytes, series=record.library)
        row = partial(row, round=record.repetition, launch=launch, oversubscribed=record.oversubscribed)
        for measure, value in values.items():
            if value is not None:
                yield row(measure=measure, value=value)


def _values(record: CollectivesRecord, cell: Cell) -> dict[str, float | None]:
    """What a good cell tells, by measure; None where nothing tells it."""
    unsure, ranks = _clock_uncertainty(record), record.world_size
    cell = _by_one_clock(record, cell)
    seconds, arrival = statistics.median(transfer_seconds(cell)), None
    if len(cell.entered_seconds) > 1:
        arrival = statistics.median(max(of_call) for of_call in zip(*arrival_seconds(cell), strict=True))
    bus_bytes = MEANINGS[Collective(cell.collective)].bus_factor(ranks) * cell.size_bytes
    is_rate = cell.size_bytes and seconds > 0
    return {
        "seconds": seconds,
        "algorithm_bytes_per_second": cell.size_bytes / seconds if is_rate else None,
        "bus_bytes_per_second": bus_bytes / seconds if is_rate else None,
        "arrival_seconds": None if arrival is None or arrival < unsure else arrival,
        "unsure_seconds": unsure or None,
        "sent_bytes_per_rank": None if cell.sent_bytes is None else cell.sent_bytes / ranks,
        "formula_bytes_per_rank": None if cell.formula_bytes is None else cell.formula_bytes / ranks,
        "bus_bytes_per_rank": bus_bytes,
        "processor_seconds_per_byte": (
            cell.processor_seconds / cell.size_bytes if cell.processor_seconds is not None and cell.size_bytes else None
        ),
    }


def _by_one_clock(record: CollectivesRecord, cell: Cell) -> Cell:
    """The cell by the clock of the machine that started the launch."""
    if len(record.hosts) < 2:
        return cell
    # The ranks of a host follow one another.
    each = record.world_size // len(record.hosts)
    ahead = [record.hosts[rank // each].clock_offset_seconds or 0.0 for rank in range(record.world_size)]
    entered, left = (
        [[moment - offset for moment in of_rank] for of_rank, offset in zip(moments, ahead, strict=True)]
        for moments in (cell.entered_seconds, cell.left_seconds)
    )
    return structs.replace(cell, entered_seconds=entered, left_seconds=left)


def _clock_uncertainty(record: CollectivesRecord) -> float:
    """By how many seconds two hosts' clocks may be apart at most once they are set right, whichever two these are."""
    if len(record.hosts) < 2:
        return 0.0
    return sum(sorted(host.clock_uncertainty_seconds or 0.0 for host in record.hosts)[-2:])


def _world(record: CollectivesRecord) -> str:
    """What libraries share that can be compared: such as `4 ranks, 2 hosts, 100 Mbit/s, cpu, float32`."""
    words = [f"{record.world_size} ranks", hosts_in_words(record.hosts, record.virtual), record.device]
    return ", ".join(filter(None, [*words, record.sweep.data_type]))


def show(records: Sequence[CollectivesRecord], observed: pd.DataFrame) -> Display:
    """Libraries beside one another, with what nccl-tests' users know."""
    by_library: dict[str, list[CollectivesRecord]] = {}
    for record in sorted(records, key=lambda record: record.library):
        by_library.setdefault(record.library, []).append(record)
    return Display(
        title="Collectives of distributed training, measured one by one",
        contender="library",
        x="size, B",
        x_is_bytes=True,
        series=[Series(name=name, colors=own[0].colors) for name, own in by_library.items()],
        measures=[
            Measure(name=name, label=label, factor=factor, meaning=meaning)
            for name, (label, factor, meaning) in _MEASURES.items()
        ],
        growth="lines",
        sentences=_cost_of_timing(by_library, observed),
        method=[_calls(records), *_METHOD],
        tables=[_algorithms(by_library), _libraries(by_library)],
    )


_MEASURES = {
    "seconds": ("time, \N{MICRO SIGN}s", 1e6, "from the last rank's beginning until the last rank has its result"),
    "algorithm_bytes_per_second": ("algbw, MB/s", 1e-6, "size over time"),
    "bus_bytes_per_second": ("busbw, MB/s", 1e-6, "algbw times a factor of the collective and the ranks"),
    "arrival_seconds": ("arrival, \N{MICRO SIGN}s", 1e6, "from the first rank's beginning to the last one's"),
    "unsure_seconds": ("clocks within, \N{MICRO SIGN}s", 1e6, "by which two hosts' clocks may differ"),
    "sent_bytes_per_rank": ("sent, B/rank", 1.0, "counted by network interfaces, with headers"),
    "formula_bytes_per_rank": ("by formula, B/rank", 1.0, "what the algorithm sends"),
    "bus_bytes_per_rank": ("by nccl-tests, B/rank", 1.0, "what busbw takes to be sent"),
    "processor_seconds_per_byte": ("CPU, ns/B", 1e9, "of all ranks' processes together"),
}
"""By the names of observations: label, factor and meaning."""

_METHOD = [
    "The ranks meet at a barrier before each call. Between hosts each clock is corrected by its host's offset.",
    "Sizes, algbw and busbw are as nccl-tests defines them (doc/PERFORMANCE.md); 1 MB is 10\u2076 bytes.",
    "Sent bytes are of calls after the timed ones, in the launch's own network, over several hosts those from host to "
    "host. What ranks hand over in shared memory isn't sent.",
]


def _calls(records: Sequence[CollectivesRecord]) -> str:
    """How many calls were timed, and in how many launches their results were compared."""
    sweeps = [record.sweep for record in records if record.status == "ok"]
    timed = dict.fromkeys(f"{sweep.iterations} after {sweep.warmup_iterations}" for sweep in sweeps)
    checked = sum(sweep.check for sweep in sweeps)
    return (
        f"Calls timed at each size: {', '.join(timed) or 'none'}. Every result was compared with NumPy's in {checked} "
        f"of {len(sweeps)} launches."
    )


def _cost_of_timing(by_library: dict[str, list[CollectivesRecord]], observed: pd.DataFrame) -> list[str]:
    """What looking at the clock costs, beside the shortest call of each library."""
    costs = []
    shortest = observed[observed["measure"] == "seconds"].groupby(["series", "subject", "world", "x"])["value"].median()
    for name, own in by_library.items():
        if name in shortest.index:
            cost = statistics.median(
                record.timing_seconds for record in own if any(c.status == "ok" for c in record.cells)
            )
            costs.append(f"{name} {1e9 * cost:.0f} ns, {100 * cost / shortest[name].min():.2f} %")
    return [f"Looking at the clock takes, of each library's shortest call: {'; '.join(costs)}."] if costs else []


def _algorithms(by_library: dict[str, list[CollectivesRecord]]) -> Table:
    """The algorithm of each library with its formula and source, over the sizes at which it takes it."""
    sizes: dict[tuple[str, ...], set[int]] = {}
    for name, own in by_library.items():
        for cell in (cell for record in own for cell in record.cells if cell.status == "ok"):
            key = (name, cell.collective, cell.algorithm, cell.formula, cell.source)
            sizes.setdefault(key, set()).add(cell.size_bytes)
    rows = [
        [name, collective, " to ".join(f"{size:,}" for size in sorted({min(of), max(of)})), *told]
        for (name, collective, *told), of in sizes.items()
    ]
    columns = ["library", "collective", "sizes, B", "algorithm", "all ranks send", "source"]
    return Table(title="Algorithms", columns=columns, rows=rows)


def _libraries(by_library: dict[str, list[CollectivesRecord]]) -> Table:
    """What each library is, and what it tells of itself."""
    rows = []
    for name, own in by_library.items():
        facts = dict.fromkeys(f"{fact}: {value}" for record in own for fact, value in record.facts.items())
        carried = dict.fromkeys(record.backend for record in own if record.backend)
        rows.append([name, own[0].title, own[0].family, ", ".join(carried), "; ".join(facts)])
    return Table(title="Libraries", columns=["library", "is", "family", "carried by", "tells of itself"], rows=rows)


EXPERIMENT = Experiment(
    name="collectives",
    about=__doc__ or "",
    scope=Scope,
    hosts="any",
    record=CollectivesRecord,
    stages=in_rounds(launches),
    observe=observe,
    show=show,
)


if __name__ == "__main__":
    exit_with_one_line(partial(run, EXPERIMENT))
