"""common/records/calibration.py: what rounds with a known truth say, which promises hold, and which calibration a
comparison shows.
"""

import numpy as np
import pytest

from common.records import calibration, manifest
from common.records.calibration import measured
from common.records.header import Machine

HERE = Machine(processor="Some CPU, fast", cores=2)
"""The machine that a comparison is on."""


def held(made):
    return [promise.holds for promise in calibration.promises(made)]


def test_four_alarms_in_thirty_blocks_are_the_most_that_may_be(make_calibration):
    assert calibration.most_alarms(30) == 4
    assert held(make_calibration(alarms=4)) == [True, True]
    assert held(make_calibration(alarms=5)) == [False, True]


def test_busy_work_must_be_found_in_nine_of_ten_blocks_where_the_spread_is_small(make_calibration):
    assert held(make_calibration(found=17)) == [True, True]
    assert held(make_calibration(found=16)) == [True, False]


def test_where_the_spread_is_large_the_smallest_difference_is_said_and_nothing_promised(make_calibration):
    found = make_calibration(found=3, spread=0.0251, smallest_difference=0.0294)
    assert held(found) == [True, None]
    assert "The smallest difference found in 90 % of such blocks is 2.9 %." in calibration.in_words(found)


def test_a_short_calibration_says_what_cannot_be_concluded(make_calibration):
    short = make_calibration(rounds=12, blocks=2, alarms=2, long_blocks=1, found=0)
    assert held(short) == [None, None]
    words = calibration.in_words(short)
    assert "called different in 2 of 2 blocks of six rounds" in words
    assert words.count("too few to conclude anything") == 2
    assert "Nothing contradicts what they promise." in words
    assert "keep their promises" not in words


def test_a_calibration_that_holds_says_so_with_its_numbers(make_calibration):
    words = calibration.in_words(make_calibration())
    assert words.startswith(
        "Calibrated on this kind of machine (Some CPU, fast, 2 cores) on 2026-01-02 by 180 rounds of numpy_alone with "
        "1 worker, commit 0123456789. The statistics keep their promises. Equal launches were called different in 2 of "
        "30 blocks of six rounds, where 4 at most may be; by 95 % Clopper-Pearson the risk is at most 22.1 %. "
    )


def test_a_broken_promise_is_named(make_calibration):
    words = calibration.in_words(make_calibration(alarms=9, found=9))
    assert "don't keep what they promise about equal launches and busy work." in words
    assert "keep their promises" not in words


def test_a_calibration_is_read_as_it_was_written(make_calibration, tmp_path):
    written = make_calibration(commit="12345678", strategy="a, b")
    calibration.write(tmp_path / calibration.FILE, written)
    assert calibration.read(tmp_path / calibration.FILE) == written


def test_a_calibration_from_when_simulated_families_were_among_its_columns_is_read(make_calibration, tmp_path):
    path, written = tmp_path / calibration.FILE, make_calibration()
    calibration.write(path, written)
    columns, values = path.read_text().splitlines()
    path.write_text(f"{columns},families,false_different,false_alike\n{values},10000,0.0516,0.049\n")
    assert calibration.read(path) == written


@pytest.mark.parametrize("damage", ["", "date\n", "date,commit\n2026-01-02,0123456789\n", "\udc80"])
def test_a_damaged_calibration_is_named_with_the_remedy(tmp_path, refusal, damage):
    path = tmp_path / calibration.FILE
    path.write_bytes(damage.encode(errors="surrogateescape"))
    said = refusal(lambda: calibration.read(path))
    assert said.startswith(f"{path} isn't a calibration")
    assert "delete it" in said


def test_a_report_has_the_verdict_of_its_own_folder_or_says_how_to_get_one(make_calibration, tmp_path):
    assert calibration.for_report(tmp_path).startswith("Not calibrated here: `nox -s calibrate`")
    calibration.write(tmp_path / calibration.FILE, make_calibration())
    assert calibration.for_report(tmp_path) == calibration.in_words(make_calibration())


@pytest.fixture
def comparison(tmp_path):
    """A function that says which of the calibrations, by the time in their folders' names, a comparison shows."""

    def shown(**calibrations):
        for time, made in calibrations.items():
            calibration.write(tmp_path / f"{time}-calibration" / calibration.FILE, made)
        folder = tmp_path / "comparison"
        calibration.copy_into(folder, tmp_path, HERE)
        return calibration.read(folder / calibration.FILE) if (folder / calibration.FILE).exists() else None

    return shown


def test_a_comparison_shows_the_newest_calibration(make_calibration, comparison):
    newest = make_calibration(date="2026-01-04")
    assert comparison(t1=make_calibration(), t3=newest, t2=make_calibration(date="2026-01-03")) == newest


def test_a_comparison_shows_no_calibration_that_was_edited(make_calibration, comparison, tmp_path, capsys):
    older, newest = make_calibration(), make_calibration(date="2026-01-04")
    assert comparison(t1=older, t2=newest) == newest
    edited = tmp_path / "t2-calibration" / calibration.FILE
    manifest.note(edited.parent, [edited])
    calibration.write(edited, make_calibration(date="2026-01-04", alarms=0))
    calibration.copy_into(tmp_path / "comparison", tmp_path, HERE)
    assert calibration.read(tmp_path / "comparison" / calibration.FILE) == older
    assert f"{edited} isn't shown, since this was edited: {calibration.FILE}." in capsys.readouterr().out


def test_a_comparison_shows_no_calibration_of_another_kind_of_machine(make_calibration, comparison):
    assert comparison(t1=make_calibration(processor="Another CPU"), t2=make_calibration(cores=4)) is None
    assert comparison(t3=make_calibration()) == make_calibration()


def test_a_comparison_shows_one_with_too_few_blocks_only_where_there_is_no_other(make_calibration, comparison):
    short = make_calibration(blocks=2, alarms=0)
    assert comparison(t2=short) == short
    assert comparison(t1=make_calibration()) == make_calibration()


# What rounds say


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
