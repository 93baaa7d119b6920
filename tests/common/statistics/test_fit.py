"""common/statistics/fit.py: lines through times that are known, against scipy, and what can't change the answer."""

import math
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

from common.statistics.fit import fit, lines
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


def estimates(found):
    """The value and the ends of everything that a fit estimates: (estimates, 3)."""
    every = [each for piece in found.pieces for each in (piece.latency_seconds, piece.bytes_per_second)]
    return np.array([[each.value, each.low, each.high] for each in every])


@pytest.mark.parametrize(
    ("seconds_of", "starts", "latencies", "bandwidths"),
    [
        (line, [8], [20e-6], [1e9]),
        (eager_then_rendezvous, [8, 65536], [20e-6, 60e-6], [1e9, 3e9]),
        (three_protocols, [8, 1024, 65536], [5e-6, 20e-6, 60e-6], [1e8, 1e9, 3e9]),
        (lambda size: 1e-5, [8], [1e-5], [math.inf]),
    ],
    ids=["one protocol", "two", "three", "no growth"],
)
def test_jumps_from_one_protocol_to_another_are_found_where_they_are(seconds_of, starts, latencies, bandwidths):
    found = fit(SIZES, launches(seconds_of, 6))
    assert [piece.from_bytes for piece in found.pieces] == starts
    assert [piece.latency_seconds.value for piece in found.pieces] == pytest.approx(latencies, rel=1e-9)
    assert [piece.bytes_per_second.value for piece in found.pieces] == pytest.approx(bandwidths, rel=1e-9)


def test_residuals_are_over_the_median_launch():
    seconds = launches(eager_then_rendezvous, 5, NOISE)
    found, medians = fit(SIZES, seconds), np.median(seconds, axis=1)
    fitted = [
        piece.seconds(size) for piece in found.pieces for size in SIZES if piece.from_bytes <= size <= piece.to_bytes
    ]
    assert found.residuals == pytest.approx((fitted - medians) / medians)
    assert found.launches == 5


def test_intervals_come_with_six_launches_and_hold_the_estimates():
    few, enough = (estimates(fit(SIZES, launches(line, FEWEST_LAUNCHES - less, NOISE))) for less in (1, 0))
    assert np.isnan(few).tolist() == [[False, True, True]] * len(few)
    assert (enough[:, 1] < enough[:, 0]).all()
    assert (enough[:, 0] < enough[:, 2]).all()


def test_an_interval_holds_95_percent_of_the_medians_of_launches_that_are_drawn_with_replacement():
    speeds = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5]
    [piece] = fit(SIZES, launches(line) * speeds).pieces
    ends = np.percentile(np.median([*product(speeds, repeat=len(speeds))], axis=1), (2.5, 97.5))
    latency, bandwidth = piece.latency_seconds, piece.bytes_per_second
    assert [latency.low, latency.high] == pytest.approx(20e-6 * ends, rel=0.06)
    assert [bandwidth.low, bandwidth.high] == pytest.approx(1e9 / ends[::-1], rel=0.06)


@pytest.mark.parametrize(("jump", "pieces"), [(1e-3, 2), (1e-7, 1)])
def test_what_is_less_than_a_millionth_of_the_time_is_rounding(jump, pieces):
    found = fit(SIZES, launches(lambda size: line(size) * (1 + jump * (size >= 1024))))
    assert len(found.pieces) == pieces


@pytest.mark.parametrize(("count", "most"), [(0, 0), (2, 0), (3, 1), (5, 1), (6, 2), (8, 2), (9, 3)])
def test_each_line_has_three_sizes_at_least(count, most):
    # Each third size begins a protocol of its own, if three are left for it.
    jumps = np.array([10.0 ** min(place // 3, count // 3 - 1) for place in range(count)])
    found = fit(SIZES[:count], np.tile(jumps[:, None], 6))
    assert len(found.pieces if found else ()) == most


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
def test_as_many_lines_are_taken_as_schwarzs_criterion_finds_and_none_falls(seconds):
    sizes, measured = np.array(SIZES[: len(seconds)], dtype=float), np.array(seconds)

    def criterion(cuts):
        """Two parameters for each line, and one for each place where another begins."""
        spans, n = [*pairwise((0, *cuts, len(sizes)))], len(sizes)
        misfit = sum(lines(sizes[start:end], measured[None, start:end])[2, 0] for start, end in spans)
        return n * math.log(max(misfit / n, 1e-12)) + (2 * len(spans) + len(cuts)) * math.log(n)

    found = fit(SIZES[: len(seconds)], measured[:, None])
    assert all(piece.latency_seconds.value >= 0 for piece in found.pieces)
    assert all(piece.bytes_per_second.value > 0 for piece in found.pieces)
    assert found.pieces[-1].to_bytes == sizes[-1]
    starts = [SIZES.index(piece.from_bytes) for piece in found.pieces]
    assert [SIZES.index(piece.to_bytes) + 1 for piece in found.pieces[:-1]] == starts[1:]
    every = [cuts for more in range(3) for cuts in combinations(range(3, len(sizes) - 2), more)]
    possible = [cuts for cuts in every if all(end - start >= 3 for start, end in pairwise((0, *cuts, len(sizes))))]
    assert criterion(starts[1:]) == pytest.approx(min(map(criterion, possible)), abs=1e-9)


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
    scales = np.array([[factor], [1 / factor]] * len(before.pieces))
    assert estimates(after) == pytest.approx(scales * estimates(before), rel=1e-6, abs=factor * 1e-15)
