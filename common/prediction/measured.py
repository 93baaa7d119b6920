"""What was measured, as predictions need it: seconds per step by scenario, and seconds per message by library."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TypeVar

import numpy as np

from common.declarations import catalogue
from common.prediction.message_costs import Wire
from common.records import metrics
from common.records.certificate import trusted
from common.records.collective_times import CollectivesRecord, transfer_seconds
from common.records.files import read_records
from common.records.training import Record

K = TypeVar("K")


@dataclass(frozen=True)
class Scenario:
    """What is launched, but for its strategy's exchange: whose steps take about as long in each launch."""

    strategy: str
    preset: str
    rows: int
    """Of each worker, in a step."""
    workers: int
    hosts: int
    wire: Wire = field(default_factory=Wire)
    crowding: float = field(default=1.0, compare=False)
    """Threads per core, where there are more threads than cores; else 1."""

    @property
    def oversubscribed(self) -> bool:
        """Whether its workers share cores."""
        return self.crowding > 1


@dataclass(frozen=True)
class Measured:
    """Seconds per step, one number for each launch."""

    steps: Mapping[Scenario, Sequence[float]]
    without_exchange: Mapping[Scenario, Sequence[float]]
    ratios: np.ndarray
    """Of each rank's clocked windows over the median of the launch's, ascending, of launches without exchange."""
    exchanges: Mapping[str, Mapping[int, Sequence[float]]]
    """By library and size in bytes the seconds of its all-reduce between two ranks, one number for each launch."""

    def resampled(self, draw: np.random.Generator) -> Measured:
        """Launches drawn with replacement, scenario by scenario (Efron & Tibshirani, "An Introduction to the
        Bootstrap", 1993, section 13.3).
        """

        def again(launches: Mapping[K, Sequence[float]]) -> dict[K, Sequence[float]]:
            return {key: draw.choice(seconds, len(seconds)).tolist() for key, seconds in launches.items()}

        return replace(
            self,
            steps=again(self.steps),
            without_exchange=again(self.without_exchange),
            exchanges={library: again(sizes) for library, sizes in self.exchanges.items()},
        )


def scenario_of(record: Record) -> Scenario:
    """The scenario of a launch. Its link is what was chosen for virtual hosts, else none."""
    virtual = record.virtual
    bits = virtual.bandwidth_bits_per_second if virtual else None
    cores = record.host.usable_cores if record.oversubscribed else None
    return Scenario(
        strategy=record.strategy,
        preset=record.task.preset,
        rows=record.examples_per_step // (record.world_size if record.synchronous else 1),
        workers=record.world_size,
        hosts=max(1, len(record.hosts)),
        wire=Wire(bits, (virtual.delay_seconds or 0.0) if virtual else 0.0) if len(record.hosts) > 1 else Wire(),
        crowding=crowding_of(record.strategy, record.world_size, cores),
    )


def crowding_of(strategy: str, workers: int, cores: int | None) -> float:
    """As `Scenario` has it, of so many workers, and the processes beside them, on one machine."""
    return max(1.0, catalogue.find(strategy).threads_of(workers) / cores) if cores else 1.0


def measured(folder: Path, sweeps: Path | None = None) -> Measured:
    """Gather what a folder's launches measured with every strategy's default options, and what sweeps in another did.

    Launches count that ended well and trained what was declared.
    """
    sweep_records = read_records(sweeps, CollectivesRecord) if sweeps else {}
    steps: dict[Scenario, list[float]] = defaultdict(list)
    without: dict[Scenario, list[float]] = defaultdict(list)
    ratios: list[float] = []
    for record in trusted(read_records(folder, Record), folder).values():
        if record.status != "ok" or record.label or record.task.checkpoint or record.task.is_accounted:
            continue
        kept = steps if record.exchange else without
        # Where workers don't wait for one another, the seconds in which each made one update on average.
        updates = 1 if record.synchronous else record.world_size
        kept[scenario_of(record)].append(updates * metrics.throughput(record).seconds_per_step)
        if record.world_size == 1 or not record.exchange:
            seconds = np.array([window.seconds / window.steps for window in record.windows])
            ratios += (seconds / np.median(seconds)).tolist()
    return Measured(steps, without, np.sort(ratios), _exchanges(sweep_records.values()))


def _exchanges(sweeps: Iterable[CollectivesRecord]) -> dict[str, dict[int, list[float]]]:
    """As `Measured` has them, from sweeps of two ranks over what joins them without a limit."""
    exchanges: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for record in sweeps:
        virtual = record.virtual
        is_limited = virtual and (virtual.bandwidth_bits_per_second or virtual.delay_seconds)
        for cell in [] if is_limited or record.world_size != 2 else record.cells:
            if cell.status == "ok" and cell.collective == "all_reduce" and cell.size_bytes:
                exchanges[record.library][cell.size_bytes].append(median(transfer_seconds(cell)))
    return exchanges
