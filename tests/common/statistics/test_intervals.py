"""common/statistics/intervals.py: intervals of medians, against published tables."""

import math

from common.statistics import intervals


def test_the_interval_is_the_narrowest_that_covers_enough():
    """By the binomial distribution, as the tables of the sign test: from six values on."""
    assert intervals.FEWEST_LAUNCHES == 6
    for n in (*range(1, 60), 162):
        coverage = {k: 1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2**n for k in range(1, n // 2 + 1)}
        enough = [k for k, probability in coverage.items() if probability >= 0.95]
        interval = intervals.median_interval(list(range(n, 0, -1)))
        assert (interval.n, interval.median) == (n, (n + 1) / 2)
        assert (interval.low, interval.high) == ((max(enough), n + 1 - max(enough)) if enough else (None, None)), n


def test_a_confidence_that_is_met_exactly_is_met():
    # Minimum to maximum of five values covers 1 - 2 / 2**5 = 0.9375.
    interval = intervals.median_interval([1, 2, 3, 4, 5], confidence=0.9375)
    assert (interval.low, interval.high) == (1, 5)
