"""What was measured, as predictions need it: seconds per step by configuration, and seconds per message by library."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

import numpy as np

from common.prediction.messages import Link, path
from common.records import metrics
from common.records.collectives import CollectivesRecord, transfer_seconds
from common.records.training import Record


@dataclass(frozen=True)
class Configuration:
    """What is launched, but for its strategy's exchange: whose steps take about as long in each launch."""

    strategy: str
    preset: str
    rows: int
    """Of each worker, in a step."""
    workers: int
    hosts: int
    link: Link = field(default_factory=Link)
    oversubscribed: bool = False
    """Whether its workers share cores."""


@dataclass(frozen=True)
class Exchanges:
    """What all-reduces of one library took between two ranks: arrays (calls,) of sizes in bytes and of seconds."""

    sizes: np.ndarray
    seconds: np.ndarray
    link: Link


@dataclass(frozen=True)
class Measured:
    """Seconds per step, one number for each launch."""

    steps: Mapping[Configuration, Sequence[float]]
    without_exchange: Mapping[Configuration, Sequence[float]]
    ratios: np.ndarray
    """Of each rank's clocked windows over the median of the launch's, ascending, of launches without exchange."""
    exchanges: Mapping[str, Exchanges]
    """By library."""

    def resampled(self, draw: np.random.Generator) -> Measured:
        """Launches drawn with replacement, configuration by configuration (Efron & Tibshirani, "An Introduction to the
        Bootstrap", 1993, section 13.3).
        """
        exchanges = dict[str, Exchanges]()
        for library, each in self.exchanges.items():
            chosen = draw.integers(len(each.sizes), size=len(each.sizes))
            exchanges[library] = replace(each, sizes=each.sizes[chosen], seconds=each.seconds[chosen])
        drawn = [
            {key: draw.choice(seconds, len(seconds)).tolist() for key, seconds in launches.items()}
            for launches in (self.steps, self.without_exchange)
        ]
        return replace(self, steps=drawn[0], without_exchange=drawn[1], exchanges=exchanges)


def configuration_of(record: Record) -> Configuration:
    """The configuration of a launch. Its link is what was chosen for virtual hosts, else none."""
    virtual = record.virtual
    bits = virtual.bandwidth_bits_per_second if virtual else None
    return Configuration(
        strategy=record.strategy,
        preset=record.task.preset,
        rows=record.examples_per_step // (record.world_size if record.synchronous else 1),
        workers=record.world_size,
        hosts=max(1, len(record.hosts)),
        link=Link(bits, (virtual.delay_seconds or 0.0) if virtual else 0.0) if len(record.hosts) > 1 else Link(),
        oversubscribed=record.oversubscribed,
    )


def seconds_of(record: Record) -> float:
    """Seconds of a step; where workers don't wait for one another, those in which each made one update on average."""
    updates = 1 if record.synchronous else record.world_size
    return updates * metrics.throughput(record).seconds_per_step


def measured(records: Iterable[Record], sweeps: Iterable[CollectivesRecord]) -> Measured:
    """Gather what was measured with every strategy's default options, by launches and sweeps that ended well."""
    steps: dict[Configuration, list[float]] = defaultdict(list)
    without: dict[Configuration, list[float]] = defaultdict(list)
    ratios: list[float] = []
    for record in records:
        if record.status != "ok" or record.label or record.task.checkpoint or record.task.is_accounted:
            continue
        kept = steps if record.exchange else without
        kept[configuration_of(record)].append(seconds_of(record))
        if record.world_size == 1 or not record.exchange:
            seconds = np.array([window.seconds / window.steps for window in record.windows])
            ratios += (seconds / np.median(seconds)).tolist()
    return Measured(steps, without, np.sort(ratios), _exchanges(sweeps))


def _exchanges(sweeps: Iterable[CollectivesRecord]) -> dict[str, Exchanges]:
    found: dict[str, list[tuple[int, float, Link]]] = defaultdict(list)
    for record in sweeps:
        virtual = record.virtual
        link = Link(virtual.bandwidth_bits_per_second, virtual.delay_seconds or 0.0) if virtual else Link()
        for cell in record.cells:
            if cell.status == "ok" and cell.collective == "all_reduce" and record.world_size == 2 and cell.size_bytes:
                found[record.library].append((cell.size_bytes, median(transfer_seconds(cell)), link))
    return {
        library: Exchanges(np.array([size for size, _, _ in own]), np.array([each for _, each, _ in own]), own[0][2])
        for library, own in found.items()
    }


def ring_of_two(exchanges: Exchanges) -> tuple[np.ndarray, np.ndarray]:
    """Messages and bytes that followed one another in each all-reduce: arrays (calls,)."""
    chain = path("all_reduce", 2)
    return np.full(len(exchanges.sizes), chain.messages), chain.share * exchanges.sizes
