"""common/records/calibration.py: what rounds with a known truth say, which promises hold, and which calibration a
comparison shows.
"""

import numpy as np
import pytest

from common.records import calibration, manifest
from common.records.calibration import Calibration, measured
from common.records.header import Machine

HERE = Machine(processor="Some CPU, fast", cores=2)
"""The machine that a comparison is on."""


def make_calibration(**changes):
    """A calibration whose promises hold, but for these changes."""
    values = {
        **{"date": "2026-01-02", "commit": "0123456789", "processor": "Some CPU, fast", "cores": 2},
        **{"strategy": "numpy_alone", "workers": 1, "order_seed": 7, "rounds": 180, "blocks": 30, "alarms": 2},
        **{"alarms_bound": 0.2207, "spread": 0.0125, "long_blocks": 18, "found": 18, "busy_share": 0.0512},
        "smallest_difference": 0.0146,
    }
    return Calibration(**values | changes)


@pytest.mark.parametrize(
    ("changes", "held"),
    [
        ({"alarms": 4}, [True, True]),
        ({"alarms": 5}, [False, True]),
        ({"found": 17}, [True, True]),
        ({"found": 16}, [True, False]),
        ({"found": 3, "spread": 0.0251}, [True, None]),
        ({"rounds": 12, "blocks": 2, "alarms": 2, "long_blocks": 1, "found": 0}, [None, None]),
    ],
    ids=["as few alarms as may be", "too many", "found in nine of ten", "too seldom", "a large spread", "a short one"],
)
def test_which_promises_hold(changes, held):
    assert [promise.holds for promise in calibration.promises(make_calibration(**changes))] == held


def test_a_calibration_says_what_holds_with_its_numbers_and_names_a_broken_promise():
    def words(**changes):
        return calibration.in_words(make_calibration(**changes))

    assert words().startswith(
        "Calibrated on this kind of machine (Some CPU, fast, 2 cores) on 2026-01-02 by 180 rounds of numpy_alone with "
        "1 worker, commit 0123456789. The statistics keep their promises. Equal launches were called different in 2 of "
        "30 blocks of six rounds, where 4 at most may be; by 95 % Clopper-Pearson the risk is at most 22.1 %. "
    )
    broken, short = words(alarms=9, found=9), words(rounds=12, blocks=2, alarms=2, long_blocks=1, found=0)
    assert "don't keep what they promise about equal launches and busy work." in broken
    assert "keep their promises" not in broken + short
    found = words(found=3, spread=0.0251, smallest_difference=0.0294)
    assert "The smallest difference found in 90 % of such blocks is 2.9 %." in found
    assert "called different in 2 of 2 blocks of six rounds" in short
    assert short.count("too few to conclude anything") == 2
    assert "Nothing contradicts what they promise." in short


def test_a_calibration_of_any_version_is_read_and_its_verdict_is_that_of_its_own_folder(tmp_path, refusal):
    path, written = tmp_path / calibration.FILE, make_calibration()
    assert calibration.for_report(tmp_path).startswith("Not calibrated here: `nox -s calibrate`")
    calibration.write(path, written)
    assert calibration.for_report(tmp_path) == calibration.in_words(written)
    columns, values = path.read_text().splitlines()
    path.write_text(f"{columns},families,false_different,false_alike\n{values},10000,0.0516,0.049\n")
    assert calibration.read(path) == written
    path.write_text(f"{columns}\n")
    assert refusal(lambda: calibration.read(path)) == f"{path} holds no calibration: delete it."


def test_a_comparison_shows_the_newest_calibration_of_its_kind_of_machine_with_blocks_enough_that_nobody_edited(
    tmp_path, capsys
):
    def shown(**calibrations):
        """Which of the calibrations, by the time in their folders' names, a comparison shows."""
        for time, made in calibrations.items():
            calibration.write(tmp_path / f"{time}-calibration" / calibration.FILE, made)
        path = tmp_path / "comparison" / calibration.FILE
        calibration.copy_into(path.parent, tmp_path, HERE)
        return calibration.read(path) if path.exists() else None

    assert shown(t1=make_calibration(processor="Another CPU"), t2=make_calibration(cores=4)) is None
    short, older, newest = make_calibration(blocks=2, alarms=0), make_calibration(), make_calibration(date="2026-01-04")
    assert shown(t9=short) == short
    assert shown(t3=older) == older
    assert shown(t1=older, t4=newest, t2=make_calibration(date="2026-01-03")) == newest
    edited = tmp_path / "t4-calibration" / calibration.FILE
    manifest.note(edited.parent, [edited])
    assert shown(t4=make_calibration(date="2026-01-04", alarms=0)) == older
    assert f"{edited} isn't shown, since this was edited: {calibration.FILE}." in capsys.readouterr().out


def rates(rounds=180, spread=0.01, slower=0.05, seed=0):
    """Rates of first, second and busy with so much spread of each, on a machine that becomes ten times slower."""
    generator = np.random.default_rng(seed)
    drift = np.geomspace(10_000, 1_000, rounds)
    noise = generator.normal(0.0, spread, (3, rounds))
    return [drift * np.exp(noise[alias] - (alias == 2) * np.log1p(slower)) for alias in range(3)]


def test_the_bound_of_four_alarms_in_thirty_blocks_is_that_of_clopper_and_pearson():
    alarming = np.repeat(np.arange(30) < 4, 6)
    first = np.full(180, 1000.0)
    # Evenly spread about nothing, but in four blocks about a clear difference.
    second = first * np.exp(np.tile([0.01, -0.01], 90) + 0.5 * alarming)
    found = measured(first, second, first)
    assert found.alarms == 4
    # By R: binom.test(4, 30)$conf.int.
    assert found.alarms_bound == pytest.approx(0.3072184, abs=1e-6)


def test_busy_launches_are_found_where_they_are_slower_however_the_machine_drifts():
    found = measured(*rates(180))
    assert found.alarms <= 4
    assert found.found == 18
    assert found.spread == pytest.approx(np.sqrt(2) * 0.01, rel=0.1)
    assert found.busy_share == pytest.approx(0.05, rel=0.1)
    first, second, busy = rates(180)
    found = measured(first, 1.05 * second, busy)
    assert (found.alarms, found.alarms_bound) == (30, 1.0)
    assert measured(*rates(slower=-0.05)).found == 0
    of_some = measured(*rates(23))
    assert (of_some.rounds, of_some.blocks, of_some.long_blocks) == (23, 3, 2)
