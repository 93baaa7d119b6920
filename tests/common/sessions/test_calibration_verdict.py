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
    assert held(make_calibration(alarms=4)) == [True, True]
    assert held(make_calibration(alarms=5)) == [False, True]


def test_busy_work_must_be_found_in_nine_of_ten_blocks_where_the_spread_is_small(make_calibration):
    assert held(make_calibration(found=17)) == [True, True]
    assert held(make_calibration(found=16)) == [True, False]


def test_where_the_spread_is_large_the_smallest_difference_is_said_and_nothing_promised(make_calibration):
    found = make_calibration(found=3, spread=0.0251, smallest_difference=0.0294)
    assert held(found) == [True, None]
    assert "The smallest difference found in 90 % of such blocks is 2.9 %." in calibration_verdict.in_words(found)


def test_a_short_calibration_says_what_cannot_be_concluded(make_calibration):
    short = make_calibration(rounds=12, blocks=2, alarms=2, long_blocks=1, found=0)
    assert held(short) == [None, None]
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
    words = calibration_verdict.in_words(make_calibration(alarms=9, found=9))
    assert "don't keep what they promise about equal launches and busy work." in words
    assert "keep their promises" not in words


def test_a_calibration_is_read_as_it_was_written(make_calibration, tmp_path):
    written = make_calibration(commit="12345678", strategy="a, b")
    calibration_verdict.write(tmp_path / calibration_verdict.FILE, written)
    assert calibration_verdict.read(tmp_path / calibration_verdict.FILE) == written


def test_a_calibration_from_when_simulated_families_were_among_its_columns_is_read(make_calibration, tmp_path):
    path, written = tmp_path / calibration_verdict.FILE, make_calibration()
    calibration_verdict.write(path, written)
    columns, values = path.read_text().splitlines()
    path.write_text(f"{columns},families,false_different,false_alike\n{values},10000,0.0516,0.049\n")
    assert calibration_verdict.read(path) == written


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
