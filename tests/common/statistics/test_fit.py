"""common/statistics/fit.py: lines through times that are known, against scipy, and what can't change the answer."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from common.statistics.fit import fit
from common.statistics.intervals import FEWEST_LAUNCHES

SIZES = [8 * 2**place for place in range(20)]
NOISE = 0.05

SECONDS = st.floats(1e-6, 1.0)
FEW_TIMES = st.integers(3, 5).flatmap(lambda sizes: st.lists(SECONDS, min_size=sizes, max_size=sizes))
MANY_TIMES = st.integers(3, 14).flatmap(lambda sizes: st.lists(SECONDS, min_size=sizes, max_size=sizes))


def line(size):
    return 20e-6 + size / 1e9


def eager_then_rendezvous(size):
    return line(size) if size < 65536 else 60e-6 + size / 3e9


def three_protocols(size):
    return 5e-6 + size / 1e8 if size < 1024 else eager_then_rendezvous(size)


def launches(seconds_of, count=1, noise=0.0, seed=0, sizes=SIZES):
    """Times (sizes, launches) of each launch, off the truth by independent log-normal noise."""
    truth = np.array([seconds_of(size) for size in sizes])
    return truth[:, None] * np.exp(noise * np.random.default_rng(seed).standard_normal((len(sizes), count)))


def numbers(found):
    """Everything that a fit estimates, in one array."""
    estimates = [each for piece in found.pieces for each in (piece.latency_seconds, piece.bytes_per_second)] + [
        *found.breakpoints
    ]
    return np.array([[each.value, each.low, each.high] for each in estimates], dtype=float)


def test_jumps_from_one_protocol_to_another_are_found_where_they_are():
    found = fit(SIZES, launches(eager_then_rendezvous))
    [point] = found.breakpoints
    assert point.value == 65536
    first, second = found.pieces
    assert (first.from_bytes, first.to_bytes) == (8, 32768)
    assert (second.from_bytes, second.to_bytes) == (65536, SIZES[-1])
    assert first.latency_seconds.value == pytest.approx(20e-6, rel=1e-9)
    assert second.latency_seconds.value == pytest.approx(60e-6, rel=1e-9)
    assert second.bytes_per_second.value == pytest.approx(3e9, rel=1e-9)
    found = fit(SIZES, launches(three_protocols))
    assert [point.value for point in found.breakpoints] == [1024, 65536]
    assert [piece.bytes_per_second.value for piece in found.pieces] == pytest.approx([1e8, 1e9, 3e9], rel=1e-9)


def test_criteria_count_sizes_and_residuals_are_over_the_median_launch():
    found = fit(SIZES, launches(eager_then_rendezvous, 7, NOISE))
    n, pieces = len(SIZES), len(found.pieces)
    assert len(found.criteria) == 3
    assert 1 + int(np.argmin(found.criteria)) == pieces > 1
    misfit = sum(residual**2 for residual in found.residuals)
    parameters = 2 * pieces + pieces - 1
    assert found.criteria[pieces - 1] == pytest.approx(n * math.log(misfit / n) + parameters * math.log(n))
    seconds = launches(line, 5, NOISE)
    found = fit(SIZES, seconds)
    medians = np.median(seconds, axis=1)
    assert found.measured_seconds == pytest.approx(medians)
    fitted = [
        piece.seconds(size) for piece in found.pieces for size in SIZES if piece.from_bytes <= size <= piece.to_bytes
    ]
    assert found.residuals == pytest.approx((fitted - medians) / medians)
    assert found.launches == 5


def test_intervals_come_with_six_launches_and_hold_the_estimates():
    few = fit(SIZES, launches(line, FEWEST_LAUNCHES - 1, NOISE))
    assert np.isnan(numbers(few)[:, 1:]).all()
    assert not np.isnan(numbers(few)[:, 0]).any()
    enough = numbers(fit(SIZES, launches(line, FEWEST_LAUNCHES, NOISE)))
    assert (enough[:, 1] < enough[:, 0]).all()
    assert (enough[:, 0] < enough[:, 2]).all()
    in_two = fit(SIZES, launches(eager_then_rendezvous, FEWEST_LAUNCHES, NOISE))
    assert all(point.low <= point.value <= point.high for point in in_two.breakpoints)


def test_with_fewer_than_three_sizes_there_is_no_fit_and_without_growth_no_bandwidth():
    found = fit([8, 16, 32], np.full((3, 6), 1e-5))
    [piece] = found.pieces
    assert piece.latency_seconds.value == pytest.approx(1e-5)
    assert piece.bytes_per_second.value == piece.bytes_per_second.high == math.inf
    assert piece.seconds(1e6) == pytest.approx(1e-5)
    assert fit([], np.empty((0, 6))) is None
    assert fit(SIZES[:2], launches(line, 6, sizes=SIZES[:2])) is None
    assert fit(SIZES[:3], launches(line, 6, sizes=SIZES[:3])) is not None


@pytest.mark.parametrize(("count", "most"), [(3, 1), (5, 1), (6, 2), (8, 2), (9, 3), (20, 3)])
def test_few_sizes_have_few_pieces_to_choose_from(count, most):
    assert len(fit(SIZES[:count], launches(line, sizes=SIZES[:count])).criteria) == most


@pytest.mark.parametrize(
    ("sizes", "seconds"),
    [
        ([8, 16, 32], np.zeros((3, 6))),
        ([8, 16, 32], np.full((3, 6), np.nan)),
        ([8, 16, 32], np.ones((3, 0))),
        ([8, 16, 32], np.ones(3)),
        ([8, 16, 32], np.ones((4, 6))),
        ([8, 32, 16], np.ones((3, 6))),
        ([8, 8, 16], np.ones((3, 6))),
    ],
)
def test_what_cannot_be_fitted_is_refused(sizes, seconds):
    with pytest.raises(ValueError, match="A fit needs"):
        fit(sizes, seconds)


@given(FEW_TIMES)
def test_one_line_is_scipys_weighted_non_negative_least_squares(seconds):
    sizes, measured = np.array(SIZES[: len(seconds)], dtype=float), np.array(seconds)
    found = fit(SIZES[: len(seconds)], measured[:, None])
    [piece] = found.pieces
    columns = np.stack([1 / measured, sizes / measured], axis=1)
    scale = np.linalg.norm(columns, axis=0)
    (latency, slope), norm = nnls(columns / scale, np.ones(len(sizes)))
    assert math.sqrt(sum(residual**2 for residual in found.residuals)) == pytest.approx(norm, rel=1e-6, abs=1e-9)
    assert piece.latency_seconds.value == pytest.approx(latency / scale[0], rel=1e-5, abs=1e-7 / scale[0])
    assert 1 / piece.bytes_per_second.value == pytest.approx(slope / scale[1], rel=1e-5, abs=1e-7 / scale[1])


@given(MANY_TIMES)
def test_nothing_that_is_fitted_is_negative_and_the_pieces_cover_the_sizes_in_order(seconds):
    sizes = SIZES[: len(seconds)]
    found = fit(sizes, np.array(seconds)[:, None])
    assert all(piece.latency_seconds.value >= 0 for piece in found.pieces)
    assert all(piece.bytes_per_second.value > 0 for piece in found.pieces)
    assert (found.pieces[0].from_bytes, found.pieces[-1].to_bytes) == (sizes[0], sizes[-1])
    for piece in found.pieces:
        assert sizes.index(piece.to_bytes) - sizes.index(piece.from_bytes) >= 2
    for before, after in pairwise(found.pieces):
        assert sizes.index(after.from_bytes) == sizes.index(before.to_bytes) + 1
    assert [point.value for point in found.breakpoints] == [piece.from_bytes for piece in found.pieces[1:]]


@given(st.permutations(range(7)), st.integers(0, 99))
def test_the_order_of_the_launches_does_not_matter(order, seed):
    seconds = launches(line, 7, NOISE, seed, SIZES[:5])
    assert fit(SIZES[:5], seconds[:, order]) == fit(SIZES[:5], seconds)


@given(st.floats(1e-3, 1e3), st.integers(0, 99))
def test_times_that_are_all_longer_scale_latency_up_and_bandwidth_down(factor, seed):
    sizes = SIZES[::3]
    seconds = launches(eager_then_rendezvous, 6, NOISE, seed, sizes)
    before, after = fit(sizes, seconds), fit(sizes, factor * seconds)
    assert len(after.pieces) == len(before.pieces)
    for old, new in zip(before.pieces, after.pieces, strict=True):
        for name in ("value", "low", "high"):
            latency, bandwidth = getattr(old.latency_seconds, name), getattr(old.bytes_per_second, name)
            assert getattr(new.latency_seconds, name) == pytest.approx(factor * latency, rel=1e-6, abs=factor * 1e-15)
            assert getattr(new.bytes_per_second, name) == pytest.approx(bandwidth / factor, rel=1e-6)
    assert after.breakpoints == before.breakpoints
