"""common/prediction/scores.py: errors, coverage, rank correlation, noise floor and baselines."""

import dataclasses
from functools import cache

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import structs
from scipy import stats

from common.prediction.forecast import predictions
from common.prediction.message_costs import Wire
from common.prediction.scores import baselines_of, score, scored
from tests.common.prediction.made_up import PER_ROW, SIZE, make_measured, scenario


@cache
def of_four():
    [row] = predictions(make_measured(), [scenario(workers=4)], []).predicted
    return row


def predicted(measured_over_predicted):
    row = of_four()
    return structs.replace(row, measured_seconds=[row.seconds * ratio for ratio in measured_over_predicted])


def test_errors_are_of_the_median_launch():
    rows = [predicted([1.0, 1.0]), predicted([0.5, 0.5]), predicted([2.0, 2.0])]
    scores = score(rows, {"as predicted": lambda each: each.seconds})
    assert (scores.configurations, scores.launches) == (3, 6)
    assert scores.median_error == pytest.approx(0.5)
    assert scores.largest_error == pytest.approx(1.0)
    assert scores.ninth_decile_error == pytest.approx(0.9)
    [baseline] = scores.baselines
    assert (baseline.median_error, baseline.ninth_decile_error) == pytest.approx((0.5, 0.9))
    assert scores.bias == pytest.approx(0.0)


def test_each_band_covers_the_launches_within_it():
    bands = {"low_80": 0.9, "high_80": 1.1, "low_95": 0.5, "high_95": 2.0}
    row = predicted([1.0, 0.95, 1.5, 0.6, 0.7, 3.0])
    scores = score([structs.replace(row, **{name: row.seconds * end for name, end in bands.items()})], {})
    assert (scores.covered_80, scores.covered_95) == (2, 5)


def test_the_noise_floor_is_how_well_one_round_predicts_the_other():
    assert score([predicted([1.1, 1.0])], {}).noise_floor == pytest.approx(0.1)
    assert score([predicted([1.2, 1.0, 1.0, 1.1])], {}).noise_floor == pytest.approx(1.1 / 1.05 - 1)
    assert score([predicted([1.0])], {}).noise_floor is None


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=3, max_size=8))
def test_strategies_are_ranked_within_a_scenario_where_equal_ones_share_their_rank(pairs):
    rows = [structs.replace(of_four(), seconds=float(one), measured_seconds=[float(other)]) for one, other in pairs]
    ours, theirs = zip(*pairs, strict=True)
    assume(len(set(ours)) > 1 and len(set(theirs)) > 1)
    expected = pytest.approx(stats.spearmanr(ours, theirs).statistic) if len(rows) > 3 else None
    assert score(rows, {}).rank_correlation == expected


@pytest.mark.parametrize(
    "change",
    [{"preset": "digits"}, {"rows": 96}, {"workers": 8}, {"hosts": 2}, {"bandwidth_bits_per_second": 1e9}],
    ids=lambda change: next(iter(change)),
)
def test_what_differs_in_more_than_its_strategy_is_not_ranked_together(change):
    rows = [structs.replace(of_four(), seconds=each, measured_seconds=[each]) for each in (1.0, 2.0, 3.0, 4.0)]
    others = [structs.replace(each, measured_seconds=[each.seconds + 10], **change) for each in rows]
    assert score([*rows, *others], {}).rank_correlation == pytest.approx(1.0)


def test_nothing_measured_is_nothing_scored():
    assert score([predicted([])], {}) is None


def test_what_was_launched_since_is_scored_apart_where_workers_shared_cores():
    asked = [scenario(workers=4), scenario(workers=4, rows=96, crowding=2.0), scenario(workers=8)]
    kept = predictions(make_measured(), asked, ["here"])
    launched = dataclasses.replace(make_measured(), steps={asked[0]: [0.1], asked[1]: [0.2, 0.3]})
    found = scored(kept, launched, make_measured())
    assert [each.measured_seconds for each in found.predicted] == [[0.1], [0.2, 0.3], []]
    assert (found.sources, found.digest) == (kept.sources, kept.digest)
    for scores, launches in ((found.scores, 1), (found.oversubscribed_scores, 2)):
        assert scores.launches == launches
        assert [each.name for each in scores.baselines] == [*baselines_of(make_measured())]


def test_baselines_worked_out_by_hand():
    asked = structs.replace(predicted([1.0]), bandwidth_bits_per_second=100e6)
    baselines = baselines_of(make_measured())
    alone, two = PER_ROW * 64, make_measured().steps[scenario(workers=2)][0]
    assert baselines["nearest measured"](asked) == pytest.approx(two)
    assert baselines["computing plus bytes over bandwidth"](asked) == pytest.approx(alone + 1.5 * 8 * SIZE / 100e6)
    serial = two / alone - 1
    assert baselines["Amdahl"](asked) == pytest.approx(alone * (4 * serial + 1 - serial))
    [baseline] = score([asked], {"nearest measured": baselines["nearest measured"]}).baselines
    assert baseline.median_error == pytest.approx(abs(two / asked.measured_seconds[0] - 1))


def test_baselines_rest_on_the_strategys_own_launches_and_its_nearest_rows():
    others = {each: [9.0] for each in make_measured().steps if each.strategy != "torch_ddp"}
    others |= {dataclasses.replace(scenario(workers=each, rows=192), preset="digits"): [8.0] for each in (1, 4)}
    own = {scenario(rows=64): [0.01], scenario(rows=192): [0.05], scenario(workers=2, rows=192): [0.055]}
    asked = structs.replace(of_four(), rows=192)
    for seconds, part in ((0.012, 0.2), (0.05, 1.0)):
        steps = others | {scenario(workers=2): [seconds]} | own
        baselines = baselines_of(dataclasses.replace(make_measured(), steps=steps))
        assert baselines["nearest measured"](asked) == 0.055
        assert baselines["computing plus bytes over bandwidth"](asked) == pytest.approx(0.05)
        assert baselines["Amdahl"](asked) == pytest.approx(0.05 * (4 * part + 1 - part))


def test_a_link_makes_no_other_number_of_workers_nearer():
    [row] = predictions(make_measured(), [scenario(workers=2, wire=Wire(1e7))], []).predicted
    assert baselines_of(make_measured())["nearest measured"](row) == make_measured().steps[scenario(workers=2)][0]
