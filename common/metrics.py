"""Pure functions from raw records to numbers: throughput, speed-up, efficiency, deviations, and their intervals."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from common.record import Record

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


def ring_all_reduce_bytes(gradient_bytes: int, world_size: int) -> float:
    """Bytes that each worker sends per step in a ring all-reduce: 2 (R - 1) / R x gradient bytes.

    Patarasuk & Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009, equation 1.
    """
    return 2 * (world_size - 1) / world_size * gradient_bytes


def parameter_server_bytes(gradient_bytes: int, synchronous_workers: int | None) -> float:
    """Bytes that all processes together send per step where parameter servers hold the weights.

    An asynchronous step (None) is one worker's: it pulls the weights and pushes its gradients, each as large as all
    gradients (Li et al., "Scaling distributed machine learning with the parameter server", 2014, algorithm 1). In a
    synchronous one every worker pulls the weights and sends its gradients to the coordinator, which pushes their sum.
    """
    if synchronous_workers is None:
        return 2.0 * gradient_bytes
    return (2.0 * synchronous_workers + 1) * gradient_bytes


def loss_deviation(losses: Sequence[float | None], oracle: Sequence[float]) -> float:
    """Largest relative deviation of a loss from the oracle's of the same step; infinite where a loss isn't finite.

    Compares the steps that both have. Raises ValueError when there are none.
    """
    pairs = list(zip(losses, oracle, strict=False))
    if not pairs:
        raise ValueError("There are no losses to compare.")
    return max(_relative_deviation(ours, theirs) for ours, theirs in pairs)


def weight_deviation(weights: Mapping[str, np.ndarray], oracle: Mapping[str, np.ndarray]) -> float:
    """Norm of the difference of all weights over the norm of the oracle's. Raises ValueError when the names differ."""
    if set(weights) != set(oracle):
        raise ValueError(f"The weights are {sorted(weights)}, the oracle's {sorted(oracle)}.")
    difference = sum(float(((weights[name] - oracle[name]) ** 2).sum()) for name in oracle)
    norm = sum(float((oracle[name] ** 2).sum()) for name in oracle)
    result = float(np.sqrt(difference / norm))
    return result if np.isfinite(result) else float("inf")


def _relative_deviation(ours: float | None, theirs: float) -> float:
    if ours == theirs and np.isfinite(theirs):
        return 0.0
    if ours is None or theirs == 0 or not np.isfinite([ours, theirs]).all():
        return float("inf")
    return abs(ours - theirs) / abs(theirs)
