"""common/sessions/calibration_blocks.py: what rounds with a known truth say, and how often the tests are wrong."""

import dataclasses

import numpy as np
import pytest

from common.sessions import calibration_blocks
from common.sessions.calibration_blocks import measured, simulate
from common.statistics.paired import decide


def rates(rounds=180, spread=0.01, slower=0.05, seed=0):
    """Rates of first, second and busy with so much spread of each, on a machine that becomes ten times slower."""
    generator = np.random.default_rng(seed)
    drift = np.geomspace(10_000, 1_000, rounds)
    noise = generator.normal(0.0, spread, (3, rounds))
    return [drift * np.exp(noise[alias] - (alias == 2) * np.log1p(slower)) for alias in range(3)]


def test_the_rounds_are_cut_into_disjoint_blocks_of_six_and_of_ten():
    of_all, of_some = measured(*rates(180)), measured(*rates(23))
    assert (of_all.rounds, of_all.blocks, of_all.long_blocks) == (180, 30, 18)
    assert (of_some.rounds, of_some.blocks, of_some.long_blocks) == (23, 3, 2)


def test_equal_launches_seldom_raise_an_alarm_and_busy_ones_are_found_however_the_machine_drifts():
    found = measured(*rates(180))
    assert found.alarms <= 4
    assert found.found == 18
    assert found.spread == pytest.approx(np.sqrt(2) * 0.01, rel=0.1)
    assert found.busy_share == pytest.approx(0.05, rel=0.1)


def test_launches_that_are_equal_in_name_only_raise_an_alarm_in_every_block():
    first, second, busy = rates(180)
    found = measured(first, 1.05 * second, busy)
    assert found.alarms == found.blocks == 30
    assert found.alarms_bound == 1.0


def test_a_busy_launch_that_is_faster_is_not_found():
    assert measured(*rates(slower=-0.05)).found == 0


def test_the_bound_of_four_alarms_in_thirty_blocks_is_that_of_clopper_and_pearson():
    alarming = np.repeat(np.arange(30) < 4, 6)
    first = np.full(180, 1000.0)
    # Evenly spread about nothing, but in four blocks about a clear difference.
    second = first * np.exp(np.tile([0.01, -0.01], 90) + 0.5 * alarming)
    found = measured(first, second, first)
    assert found.alarms == 4
    # By R: binom.test(4, 30)$conf.int.
    assert found.alarms_bound == pytest.approx(0.3072184, abs=1e-6)


def test_simulated_families_of_every_size_are_wrong_no_more_often_than_promised():
    found = simulate(500, np.random.default_rng(0))
    sizes = {(each.strategies, each.rounds) for each in found}
    assert sizes == {(2, 6), (2, 10), (3, 6), (3, 10), (6, 6), (6, 10)}
    wrong = [rate for each in found for rate in (each.false_different, each.false_alike) if not np.isnan(rate)]
    # Three standard errors above 5 %; and where there is one comparison, and nothing to correct for, no less either.
    assert max(wrong) <= 0.08
    alone = [max(each.false_different, each.false_alike) for each in found if each.strategies == 2]
    assert len(alone) == 4
    assert all(np.isnan(alone) | (np.array(alone) > 0.02))


def test_a_test_that_forgets_its_correction_is_found_by_the_families(monkeypatch):
    def uncorrected(means, deviations, counts, margin):
        each = decide(means[..., None], deviations[..., None], counts, margin)
        return dataclasses.replace(each, different=each.different[..., 0], alike=each.alike[..., 0])

    monkeypatch.setattr(calibration_blocks, "decide", uncorrected)
    found = {(each.truth, each.strategies): each for each in simulate(500, np.random.default_rng(0))}
    assert found["all equal", 6].false_different > 0.2
    assert found["a margin apart", 6].false_alike > 0.1


def test_a_test_that_compares_launches_of_different_rounds_finds_too_little():
    first, second, busy = rates(180, spread=0.005)
    order = np.random.default_rng(0).permutation(180)
    assert measured(first, second, busy).found == 18
    assert measured(first[order], second, busy).found < 9
