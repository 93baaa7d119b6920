"""common/sessions/calibration_blocks.py: what rounds with a known truth say."""

import numpy as np
import pytest

from common.sessions.calibration_blocks import measured


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


def test_a_test_that_compares_launches_of_different_rounds_finds_too_little():
    first, second, busy = rates(180, spread=0.005)
    order = np.random.default_rng(0).permutation(180)
    assert measured(first, second, busy).found == 18
    assert measured(first[order], second, busy).found < 9
