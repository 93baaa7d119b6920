"""Pure functions from raw records to numbers: throughput, speed-up, efficiency, and their intervals."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

from common.measurement.record import Record

FEWEST_LAUNCHES = 6
"""With fewer launches no 95 % interval of the median exists: for five, even minimum to maximum covers 93.75 %."""


@dataclass(frozen=True)
class Throughput:
    """What one launch's windows say: seconds of a typical step, samples per second of all workers, and how many."""

    seconds_per_step: float
    samples_per_second: float
    windows: int


@dataclass(frozen=True)
class Interval:
    """A median of n values and, from n = 6, an interval that covers the true median in at least 95 % of experiments."""

    n: int
    median: float
    low: float | None
    high: float | None


def window_seconds_per_step(record: Record) -> list[float]:
    """Seconds per step of each clocked window, in order; the slowest rank of each sets its cost."""
    slowest: dict[float, float] = {}
    for window in record.windows:
        seconds = window["seconds"] / window["steps"]
        slowest[window["step"]] = max(seconds, slowest.get(window["step"], 0.0))
    return [slowest[step] for step in sorted(slowest)]


def throughput(record: Record) -> Throughput:
    """The median window of a launch. Raises ValueError for a record without windows."""
    windows = window_seconds_per_step(record)
    if not windows:
        raise ValueError(f"The record of {record.strategy} has no windows: it is {record.status}.")
    seconds = statistics.median(windows)
    return Throughput(seconds, record.examples_per_step / seconds, len(windows))


def median_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Median with its order-statistic interval, which assumes no distribution.

    The interval is from the k-th smallest to the k-th largest value with the largest k for which the binomial
    probability P(k <= B <= n - k), B ~ Bin(n, 1/2), is at least `confidence` (David & Nagaraja, Order Statistics, 2003,
    section 7.1). Raises ValueError without values.
    """
    if not values:
        raise ValueError("A median needs at least one value.")
    ordered = sorted(values)
    n = len(ordered)
    k = int(stats.binom.ppf((1 - confidence) / 2, n, 0.5)) + 1
    while k and 1 - 2 * stats.binom.cdf(k - 1, n, 0.5) < confidence:
        k -= 1
    median = statistics.median(ordered)
    return Interval(n, median, ordered[k - 1], ordered[n - k]) if k else Interval(n, median, None, None)


def speed_up(samples_per_second: float, base_samples_per_second: float) -> float:
    """How many times the base's samples per second."""
    return samples_per_second / base_samples_per_second


def efficiency(samples_per_second: float, base_samples_per_second: float, world_size: int) -> float:
    """Speed-up per worker; 1 is ideal."""
    return speed_up(samples_per_second, base_samples_per_second) / world_size
