"""common/sessions/calibration_verdict.py: which promises hold, how that is said, and which calibration a comparison
shows."""

import pytest

from common.measurement import machine
from common.records import manifest
from common.records.header import Machine
from common.sessions import calibration_verdict


@pytest.fixture
def here(monkeypatch):
    monkeypatch.setattr(machine, "host_facts", lambda: Machine(processor="Some CPU, fast", cores=2))


def held(calibration):
    return [promise.holds for promise in calibration_verdict.promises(calibration)]


def test_four_alarms_in_thirty_blocks_are_the_most_that_may_be(make_calibration):
    assert calibration_verdict.most_alarms(30) == 4
    assert held(make_calibration(alarms=4)) == [True, True, True]
    assert held(make_calibration(alarms=5)) == [False, True, True]


def test_busy_work_must_be_found_in_nine_of_ten_blocks_where_the_spread_is_small(make_calibration):
    assert held(make_calibration(found=17)) == [True, True, True]
    assert held(make_calibration(found=16)) == [True, False, True]


def test_where_the_spread_is_large_the_smallest_difference_is_said_and_nothing_promised(make_calibration):
    found = make_calibration(found=3, spread=0.0251, smallest_difference=0.0294)
    assert held(found) == [True, None, True]
    assert "The smallest difference found in 90 % of such blocks is 2.9 %." in calibration_verdict.in_words(found)


@pytest.mark.parametrize("wrong", ["false_different", "false_alike"])
def test_simulated_families_may_exceed_five_percent_by_the_error_of_the_simulation(make_calibration, wrong):
    # Three standard errors of 10,000 families are 0.65 %, of 2,000 1.46 %.
    assert held(make_calibration(**{wrong: 0.0565})) == [True, True, True]
    assert held(make_calibration(**{wrong: 0.0566})) == [True, True, False]
    assert held(make_calibration(**{wrong: 0.0566}, families=2_000)) == [True, True, True]


def test_a_short_calibration_says_what_cannot_be_concluded(make_calibration):
    short = make_calibration(rounds=12, blocks=2, alarms=2, long_blocks=1, found=0, families=2_000)
    assert held(short) == [None, None, True]
    words = calibration_verdict.in_words(short)
    assert "called different in 2 of 2 blocks of six rounds" in words
    assert words.count("too few to conclude anything") == 2
    assert "Nothing contradicts what they promise." in words
    assert "keep their promises" not in words


def test_a_calibration_that_holds_says_so_with_its_numbers(make_calibration):
    words = calibration_verdict.in_words(make_calibration())
    assert words.startswith(
        "Calibrated on this kind of machine (Some CPU, fast, 2 cores) on 2026-01-02 by 180 rounds of numpy_alone with "
        "1 worker, commit 0123456789. The statistics keep their promises. Equal launches were called different in 2 of "
        "30 blocks of six rounds, where 4 at most may be; by 95 % Clopper-Pearson the risk is at most 22.1 %. "
    )


def test_a_broken_promise_is_named(make_calibration):
    words = calibration_verdict.in_words(make_calibration(alarms=9, false_alike=0.2))
    assert "don't keep what they promise about equal launches and simulated families." in words
    assert "keep their promises" not in words


def test_a_calibration_is_read_as_it_was_written(make_calibration, tmp_path):
    written = make_calibration(commit="12345678", strategy="a, b")
    calibration_verdict.write(tmp_path / calibration_verdict.FILE, written)
    assert calibration_verdict.read(tmp_path / calibration_verdict.FILE) == written


@pytest.mark.parametrize("damage", ["", "date\n", "date,commit\n2026-01-02,0123456789\n", "\udc80"])
def test_a_damaged_calibration_is_named_with_the_remedy(tmp_path, refusal, damage):
    path = tmp_path / calibration_verdict.FILE
    path.write_bytes(damage.encode(errors="surrogateescape"))
    said = refusal(lambda: calibration_verdict.read(path))
    assert said.startswith(f"{path} isn't a calibration")
    assert "delete it" in said


def test_a_report_has_the_verdict_of_its_own_folder_or_says_how_to_get_one(make_calibration, tmp_path):
    assert calibration_verdict.for_report(tmp_path).startswith("Not calibrated here: `nox -s calibrate`")
    calibration_verdict.write(tmp_path / calibration_verdict.FILE, make_calibration())
    assert calibration_verdict.for_report(tmp_path) == calibration_verdict.in_words(make_calibration())


@pytest.fixture
def comparison(tmp_path, here):
    """A function that says which of the calibrations, by the time in their folders' names, a comparison shows."""

    def shown(**calibrations):
        for time, calibration in calibrations.items():
            calibration_verdict.write(tmp_path / f"{time}-calibration" / calibration_verdict.FILE, calibration)
        folder = tmp_path / "comparison"
        calibration_verdict.copy_into(folder, tmp_path)
        return (
            calibration_verdict.read(folder / calibration_verdict.FILE)
            if (folder / calibration_verdict.FILE).exists()
            else None
        )

    return shown


def test_a_comparison_shows_the_newest_calibration(make_calibration, comparison):
    newest = make_calibration(date="2026-01-04")
    assert comparison(t1=make_calibration(), t3=newest, t2=make_calibration(date="2026-01-03")) == newest


def test_a_comparison_shows_no_calibration_that_was_edited(make_calibration, comparison, tmp_path, capsys):
    older, newest = make_calibration(), make_calibration(date="2026-01-04")
    assert comparison(t1=older, t2=newest) == newest
    edited = tmp_path / "t2-calibration" / calibration_verdict.FILE
    manifest.note(edited.parent, [edited])
    calibration_verdict.write(edited, make_calibration(date="2026-01-04", alarms=0))
    calibration_verdict.copy_into(tmp_path / "comparison", tmp_path)
    assert calibration_verdict.read(tmp_path / "comparison" / calibration_verdict.FILE) == older
    assert f"{edited} isn't shown, since this was edited: {calibration_verdict.FILE}." in capsys.readouterr().out


def test_a_comparison_shows_no_calibration_of_another_kind_of_machine(make_calibration, comparison):
    assert comparison(t1=make_calibration(processor="Another CPU"), t2=make_calibration(cores=4)) is None
    assert comparison(t3=make_calibration()) == make_calibration()


def test_a_comparison_shows_one_with_too_few_blocks_only_where_there_is_no_other(make_calibration, comparison):
    short = make_calibration(blocks=2, alarms=0)
    assert comparison(t2=short) == short
    assert comparison(t1=make_calibration()) == make_calibration()
