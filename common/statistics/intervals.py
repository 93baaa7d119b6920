"""How sure a median is, from n values that were measured."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FEWEST_LAUNCHES = 6
"""With fewer launches no 95 % interval of the median exists: for five, even minimum to maximum covers 93.75 %."""


@dataclass(frozen=True)
class Interval:
    """A median of n values and, from n = 6, an interval that covers the true median in at least 95 % of experiments."""

    n: int
    median: float
    low: float | None
    high: float | None


def median_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Median with its order-statistic interval, which assumes no distribution.

    The interval is from the k-th smallest to the k-th largest value with the largest k for which the binomial
    probability P(k <= B <= n - k), B ~ Bin(n, 1/2), is at least `confidence` (David & Nagaraja, Order Statistics, 2003,
    section 7.1).
    """
    # Takes a third of a second, which whoever only makes a plan doesn't need.
    from scipy.special import bdtr

    ordered = sorted(values)
    n = len(ordered)
    # bdtr(k - 1, n, 1/2) is P(B < k), which grows with k.
    k = int(np.count_nonzero(1 - 2 * bdtr(np.arange(n // 2), n, 0.5) >= confidence))
    median = statistics.median(ordered)
    return Interval(n, median, ordered[k - 1], ordered[n - k]) if k else Interval(n, median, None, None)
