"""common/statistics/paired.py against scipy and statsmodels; test_simulated_families.py tries how often it errs."""

import gc
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttost_paired

from common.paths import ROOT
from common.statistics import paired
from common.statistics.paired import FAMILY_ERROR, MARGIN

MARGIN_LOG = math.log1p(MARGIN)
PROBABILITIES = st.lists(st.floats(0, 1), min_size=1, max_size=12)


@pytest.fixture(scope="module", autouse=True)
def _quick_collections():
    """Statsmodels collects garbage at every correction, which takes long where imports have left many objects."""
    gc.freeze()
    yield
    gc.unfreeze()


def drawn(seed: int, n: int, *means: float, spread: float = 0.02) -> list[np.ndarray]:
    """A family of comparisons: n log ratios about each of these means."""
    random = np.random.default_rng(seed)
    return [mean + spread * random.standard_normal(n) for mean in means]


@given(PROBABILITIES)
def test_the_correction_is_holms_of_statsmodels(p):
    corrected = multipletests(p, method="holm")[1]
    assert paired.holm(np.array(p)) == pytest.approx(corrected)
    assert paired.holm(np.array([p, p[::-1]])) == pytest.approx(np.array([corrected, corrected[::-1]]))


@pytest.mark.parametrize("means", [(0.01,), (-0.04, -0.01, 0.0, 0.01, 0.02, 0.04)])
@pytest.mark.parametrize("seed", range(20))
def test_a_family_is_judged_as_scipy_and_statsmodels_would(seed, means):
    rounds = 6 + seed % 7
    family, zero = drawn(seed, rounds, *means, spread=0.012), np.zeros(rounds)
    judgements = paired.judge(family)
    raw = [stats.ttest_rel(logs, zero).pvalue for logs in family]
    different, corrected, *_ = multipletests(raw, alpha=FAMILY_ERROR, method="holm")
    alike = [ttost_paired(logs, zero, -MARGIN_LOG, MARGIN_LOG)[0] <= FAMILY_ERROR / len(family) for logs in family]
    assert [each.p for each in judgements] == pytest.approx(corrected)
    assert [each.ratio for each in judgements] == pytest.approx([math.exp(np.mean(logs)) for logs in family])
    assert [each.different for each in judgements] == different.tolist()
    assert [each.alike for each in judgements] == alike
    for logs, each in zip(family, judgements, strict=True):
        level = 1 - FAMILY_ERROR / len(family)
        assert np.log([each.low, each.high]) == pytest.approx(stats.ttest_rel(logs, zero).confidence_interval(level))


@pytest.mark.parametrize(
    ("mean", "verdict"), [(0.2, "faster"), (-0.2, "slower"), (0.0, "alike"), (0.01, "alike"), (0.05, "can't tell")]
)
def test_the_verdict_is_on_the_second_rate_over_the_first(mean, verdict):
    logs = mean + 0.06 * np.array([-1, 1, -1, 1, -1, 1]) * (verdict == "can't tell") + 0.002 * np.arange(-2.5, 3)
    [judgement] = paired.judge([logs])
    assert judgement.verdict == verdict
    assert judgement.ratio == pytest.approx(math.exp(mean))


def test_the_margin_decides_who_is_alike_but_for_a_difference_of_exactly_that():
    [wide], [narrow] = (paired.judge(drawn(3, 8, 0.04, spread=0.005), margin) for margin in (0.2, 0.01))
    assert (wide.p, wide.low, wide.high) == (narrow.p, narrow.low, narrow.high)
    assert (wide.verdict, narrow.verdict) == ("alike", "faster")
    exact = paired.decide(np.array([MARGIN_LOG]), np.array([0.0]), np.array([6]), MARGIN)
    assert (exact.different.tolist(), exact.alike.tolist()) == ([True], [False])


@pytest.mark.parametrize(
    ("log", "p", "verdict"), [(0.0, 1, "alike"), (0.01, 0, "alike"), (-0.01, 0, "alike"), (0.2, 0, "faster")]
)
def test_without_any_spread_the_difference_is_what_it_is(log, p, verdict):
    [judgement] = paired.judge([[log] * 6])
    assert (judgement.p, judgement.verdict) == (pytest.approx(p), verdict)
    assert [judgement.low, judgement.high] == pytest.approx([math.exp(log)] * 2)
    assert (judgement.needed.fewest, judgement.needed.most) == (6, 6)


def test_without_any_spread_nothing_is_divided_by_it_and_a_plan_imports_no_scipy():
    with np.errstate(all="raise"):
        assert [each.verdict for each in paired.judge([[0.0] * 6, [0.2] * 6])] == ["alike", "faster"]
    program = "import sys; import common.statistics.paired; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0


@pytest.mark.parametrize("n", [1, 2, 5])
def test_fewer_than_six_rounds_say_nothing_but_the_ratio(n):
    [judgement] = paired.judge([[0.5] * n])
    assert (judgement.n, judgement.ratio, judgement.verdict) == (n, pytest.approx(math.exp(0.5)), "too few rounds")
    assert all(math.isnan(value) for value in (judgement.low, judgement.high, judgement.p))
    assert (judgement.different, judgement.alike, judgement.needed) == (False, False, None)


@pytest.mark.parametrize("comparisons", [1, 3, 10])
@pytest.mark.parametrize("spread", [0.03, 0.08])
def test_the_rounds_needed_show_equal_ones_to_be_alike_in_four_of_five_families(comparisons, spread):
    def share_alike(rounds):
        """In which share of 4,000 families of equal ones the first comparison is shown to be alike."""
        logs = spread * np.random.default_rng(comparisons).standard_normal((4_000, rounds, comparisons))
        counts = np.full(comparisons, rounds)
        return paired.decide(logs.mean(axis=1), logs.std(axis=1, ddof=1), counts, MARGIN).alike[:, 0].mean()

    n = paired._first_within(spread, FAMILY_ERROR / comparisons, MARGIN)
    enough = share_alike(n)
    # Two standard errors are 0.013. With few rounds one more adds much power.
    assert enough > 0.787
    assert n == 6 or share_alike(n - 1) < 0.813
    assert n < 20 or enough < 0.83


def test_by_interval_the_rounds_needed_are_those_of_half_the_level_of_each_of_a_family():
    family = drawn(6, 8, 0.0, 0.1, 0.2, spread=0.05)
    for by_interval, level in (({}, FAMILY_ERROR / 3), ({"by_interval": True}, FAMILY_ERROR / 6)):
        for logs, each in zip(family, paired.judge(family, **by_interval), strict=True):
            assert each.needed == paired.rounds_needed(np.std(logs, ddof=1), 8, level, MARGIN)


def test_comparisons_of_few_rounds_change_nothing():
    told = drawn(4, 6, 0.0, 0.02, 0.1)
    few = [logs[:3] for logs in told]
    assert paired.judge([few[0], told[0], few[1], *told[1:], few[2]])[1:5:2] == [
        paired.judge(told)[index] for index in (0, 1)
    ]
    assert [each.n for each in paired.judge([*few, *told])] == [3, 3, 3, 6, 6, 6]


@pytest.mark.parametrize(("comparisons", "n", "power"), [(1, 6, 0.8), (3, 10, 0.9)])
def test_the_smallest_difference_has_its_power_by_the_noncentral_t_of_scipy(comparisons, n, power):
    log = np.log1p(paired.smallest_difference(0.03, n, comparisons, power))
    critical = stats.t.ppf(1 - FAMILY_ERROR / 2 / comparisons, n - 1)
    assert stats.nct.sf(critical, n - 1, log * np.sqrt(n) / 0.03) == pytest.approx(power, abs=1e-6)
    assert paired.smallest_difference(0.03, n) == paired.smallest_difference(0.03, n, 1, 0.8)


LEVELS, MARGINS = st.sampled_from([0.05, 0.005, 0.0005]), st.sampled_from([0.01, MARGIN])


@given(st.floats(1e-4, 0.5), st.integers(6, 40), LEVELS, MARGINS)
def test_the_rounds_needed_are_the_first_that_the_spreads_interval_allows(deviation, n, level, margin):
    needed = paired.rounds_needed(deviation, n, level, margin)
    low, high = deviation * np.sqrt((n - 1) / stats.chi2.ppf([0.975, 0.025], n - 1))
    for count, spread in ((needed.fewest, low), (needed.most, high)):
        rounds = (max(6, (count or 10_001) - 1), count or 10_000)
        fewer, enough = (np.log1p(margin) * paired._largest_spread(each, level) for each in rounds)
        assert fewer < spread or count == 6
        assert (enough >= spread) == (count is not None)
    assert 6 <= (needed.fewest or 10_001) <= (needed.most or 10_001)


def test_the_rounds_needed_do_not_depend_on_the_difference_and_are_at_most_the_most():
    [logs] = drawn(6, 8, 0.0, spread=0.05)
    assert paired.judge([logs])[0].needed == paired.judge([logs + 0.5])[0].needed
    assert paired.rounds_needed(100.0, 6, 0.05, MARGIN) == paired.Needed(None, None)
    assert paired.rounds_needed(0.01, 6, 0.05, 0.0) == paired.Needed(None, None)
    largest = MARGIN_LOG * paired._largest_spread(paired.MOST_ROUNDS, 0.05)
    assert paired._first_within(0.999999 * largest, 0.05, MARGIN) == paired.MOST_ROUNDS
    assert paired._first_within(1.000001 * largest, 0.05, MARGIN) is None


def test_rates_are_paired_by_round():
    logs = paired.log_ratios({3: 8.0, 1: 2.0, 2: 5.0}, {1: 1.0, 3: 2.0, 4: 7.0})
    assert [*logs.items()] == [(1, math.log(2.0)), (3, math.log(4.0))]
    assert paired.log_ratios({1: 2.0}, {2: 2.0}) == {}
