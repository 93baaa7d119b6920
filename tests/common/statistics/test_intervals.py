"""common/statistics/intervals.py: intervals of medians, against published tables."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from common.statistics import intervals

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)


# The ranks that tables of the sign test give for a two-sided 5 %.
@pytest.mark.parametrize(
    ("n", "kth"),
    [(6, 1), (7, 1), (8, 1), (9, 2), (10, 2), (11, 2), (12, 3), (15, 4), (17, 5), (20, 6), (25, 8), (30, 10)],
)
def test_the_interval_is_from_the_kth_smallest_to_the_kth_largest_of_the_table(n, kth):
    interval = intervals.median_interval(list(range(1, n + 1)))
    assert (interval.low, interval.high) == (kth, n + 1 - kth)
    assert interval.n == n
    assert interval.median == (n + 1) / 2


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_with_fewer_than_six_launches_there_is_a_median_but_no_interval(n):
    interval = intervals.median_interval(list(range(n, 0, -1)))
    assert (interval.n, interval.median, interval.low, interval.high) == (n, (n + 1) / 2, None, None)
    assert n < intervals.FEWEST_LAUNCHES == 6


def test_the_interval_is_the_narrowest_that_covers_enough():
    for n in (*range(1, 60), 162):
        coverage = {k: 1 - 2 * sum(math.comb(n, i) for i in range(k)) / 2**n for k in range(1, n // 2 + 1)}
        enough = [k for k, probability in coverage.items() if probability >= 0.95]
        low = intervals.median_interval(list(range(1, n + 1))).low
        assert low == (max(enough) if enough else None), n


def test_a_confidence_that_is_met_exactly_is_met():
    # Minimum to maximum of five values covers 1 - 2 / 2**5 = 0.9375.
    interval = intervals.median_interval([1, 2, 3, 4, 5], confidence=0.9375)
    assert (interval.low, interval.high) == (1, 5)


def test_a_median_needs_a_value():
    with pytest.raises(ValueError, match="at least one value"):
        intervals.median_interval([])


@given(VALUES)
def test_the_interval_holds_the_median_and_ends_at_values_that_were_measured(values):
    interval = intervals.median_interval(values)
    assert min(values) <= interval.median <= max(values)
    if len(values) >= intervals.FEWEST_LAUNCHES:
        assert interval.low <= interval.median <= interval.high
        assert {interval.low, interval.high} <= set(values)
    else:
        assert interval.low is interval.high is None


@given(VALUES, st.randoms(use_true_random=False))
def test_the_order_of_the_values_does_not_matter(values, shuffler):
    shuffled = list(values)
    shuffler.shuffle(shuffled)
    assert intervals.median_interval(shuffled) == intervals.median_interval(values)


@given(VALUES, st.floats(0.5, 0.999), st.floats(0.5, 0.999))
def test_more_confidence_never_makes_the_interval_narrower(values, one, other):
    less, more = sorted((one, other))
    narrow, wide = intervals.median_interval(values, less), intervals.median_interval(values, more)
    assume(wide.low is not None)
    assert wide.low <= narrow.low
    assert narrow.high <= wide.high


@given(VALUES.filter(lambda values: len(values) >= 6), st.integers(0, 59), st.floats(0, 100))
def test_a_value_that_grows_never_moves_the_interval_down(values, index, growth):
    grown = list(values)
    grown[index % len(grown)] += growth
    before, after = intervals.median_interval(values), intervals.median_interval(grown)
    assert after.low >= before.low
    assert after.high >= before.high
    assert after.median >= before.median
