"""common/sessions/regression.py: what pairs of launches say of a change, and when its gate is shut."""

import dataclasses
import io
import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from scipy import stats

from common.contract.task import PRESETS
from common.launching import executor
from common.launching.planned import PlannedLaunch
from common.paths import ROOT
from common.records import certificate, change, manifest
from common.records.change import Configuration
from common.records.files import from_json, read_records, write_record
from common.records.training import Record, Window
from common.sessions import regression
from common.sessions.other_checkout import RECORDS, Against
from common.sessions.session import Stage
from common.statistics.paired import judge
from tests.changes import changed
from tests.reports.records import make_record, named, reading

AGAINST = Against("main", "1" * 40, "2" * 40 + "+changes", 0.05)

STEADY = (1.0, 1.001, 0.999, 1.001, 0.999, 1.0)
"""Seconds per step of six rounds, with little spread."""

FAILED = {"status": "failed", "reason": "Worker 1 ended: look into its log."}


def side(seconds, name="numpy_threads", **changes):
    """One checkout's records by launch: a round for each of these seconds per step, None where it failed."""
    known = {"strategy": name, "world_size": 2, "synchronous": True, "scaling": "weak", "threads_per_worker": 1}
    known |= {"examples_per_step": 64, "task": PRESETS["digits"], "started_at": "2026-01-01T00:00:00.000+00:00"}
    ended = [
        FAILED if each is None else {"status": "ok", "windows": [Window(rank=0, step=10, steps=10, seconds=10 * each)]}
        for each in seconds
    ]
    return {
        f"{name}-{number:02d}": from_json(known | each | changes, Record) for number, each in enumerate(ended, start=1)
    }


def times(factor, seconds=STEADY):
    return [factor * each for each in seconds]


def changes(here, there, tolerance=0.05, *more, **about):
    return regression.changes(here, there, dataclasses.replace(AGAINST, tolerance=tolerance), *more, **about)


def only(rows):
    [row] = rows
    return row


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(1.2, "slower"), (1.06, "slower"), (1.0, "within"), (1.03, "within"), (0.97, "within"), (0.94, "faster")],
)
def test_a_verdict_is_given_where_the_whole_interval_lies_on_one_side(factor, verdict):
    row = only(changes(side(times(factor, STEADY[::-1])), side(STEADY), 0.05))
    assert (row.verdict, row.n, row.note) == (verdict, 6, "")
    assert row.low < row.ratio < row.high
    assert row.ratio == pytest.approx(factor, rel=1e-6)
    assert (row.here_seconds, row.there_seconds) == (pytest.approx(factor), pytest.approx(1.0))


def test_the_interval_is_that_of_the_pairs_log_ratios():
    ratios = [1.1, 1.3, 1.2, 1.25, 1.15, 1.2]
    there = [1.0, 2.0, 3.0, 1.0, 5.0, 1.0]
    here = [ratio * seconds for ratio, seconds in zip(ratios, there, strict=True)]
    row = only(changes(side(here), side(there), 0.05))
    logs = [math.log(ratio) for ratio in ratios]
    mean = sum(logs) / 6
    error = math.sqrt(sum((each - mean) ** 2 for each in logs) / 5 / 6)
    # 2.570582: Student's t with 5 degrees of freedom at 97.5 %, from a table.
    assert row.low == pytest.approx(math.exp(mean - 2.570582 * error), rel=1e-6)
    assert row.high == pytest.approx(math.exp(mean + 2.570582 * error), rel=1e-6)


def test_all_settings_with_enough_rounds_are_one_family():
    here, there = side(times(1.2, STEADY[::-1])), side(STEADY)
    alone = only(changes(here, there, 0.05))
    width = math.log(alone.high / alone.ratio)
    for others, factor in (
        (side(STEADY[:5], "numpy_others"), 1.0),
        (side(STEADY, "numpy_others"), 3.163381 / 2.570582),
    ):
        row = changes(here | others, there | others, 0.05)[-1]
        # 3.163381: Student's t with 5 degrees of freedom at 98.75 %, from a table.
        assert math.log(row.high / row.ratio) == pytest.approx(width * factor, rel=1e-5)


@given(
    st.lists(st.tuples(st.floats(0.5, 2.0), st.floats(0.5, 2.0)), min_size=6, max_size=12),
    st.sampled_from([0.0, 0.05, 0.5]),
)
def test_exchanging_both_checkouts_turns_every_finding_round(seconds, tolerance):
    here, there = (side(each) for each in zip(*seconds, strict=True))
    one = only(changes(here, there, tolerance))
    other = only(changes(there, here, tolerance))
    assert other.ratio == pytest.approx(1 / one.ratio)
    assert (other.low, other.high) == (pytest.approx(1 / one.high), pytest.approx(1 / one.low))
    turned = {"slower": "faster", "faster": "slower"}
    assert other.verdict == turned.get(one.verdict, one.verdict)


def test_what_cannot_be_told_is_said_with_the_rounds_that_it_takes():
    noisy = [1.0, 1.3, 0.8, 1.2, 0.9, 1.1]
    row = only(changes(side(noisy), side([1.0] * 6), 0.05))
    assert row.verdict == "can't tell"
    assert 6 < row.fewest < row.most
    said = row.verdict_in_words()
    assert said == f"can't tell: it takes {row.fewest:.0f} to {row.most:.0f} rounds for 80 % power"
    never = only(changes(side(noisy), side([1.0] * 6), 0.0))
    assert never.verdict_in_words() == "can't tell: it takes more than 10,000 rounds for 80 % power"
    near = only(changes(side(times(1.05, STEADY[::-1])), side(STEADY), 0.05))
    assert near.verdict_in_words() == "can't tell: it is about as large as the tolerance"
    some = only(changes(side(noisy), side([1.0] * 6), 0.007))
    assert some.verdict_in_words().endswith(" to more than 10,000 rounds for 80 % power")


def test_the_times_are_medians_of_the_paired_rounds_of_an_even_number_too():
    uneven = (1.0, 2.0, 3.0, 5.0, 6.0, 7.0)
    row = only(changes(side(uneven), side([2 * each for each in uneven])))
    assert (row.n, row.here_seconds, row.there_seconds, row.ratio) == pytest.approx((6, 4.0, 8.0, 0.5))
    # A round that one side lacks is none of the other's either.
    row = only(changes(side((*uneven[:5], None)), side([2 * each for each in uneven])))
    assert (row.n, row.here_seconds, row.there_seconds) == pytest.approx((5, 3.0, 6.0))


def test_settings_have_rows_of_their_own():
    alone = {"options": {"exchange": False}}
    sides = [
        side(STEADY) | side(STEADY, "numpy_alone", **alone) | side(STEADY, "numpy_wide", world_size=4) for _ in range(2)
    ]
    assert [row.in_words() for row in changes(*sides, 0.05)] == [
        "numpy_alone with 2 workers without exchange, digits weak",
        "numpy_threads with 2 workers, digits weak",
        "numpy_wide with 4 workers, digits weak",
    ]


def test_a_launch_of_one_checkout_alone_takes_no_part():
    here = side(STEADY) | side(STEADY, "numpy_certified")
    assert only(changes(here, side(STEADY), 0.05)).strategy == "numpy_threads"


def test_rounds_in_which_either_failed_make_no_pair_and_are_told():
    here, there = [2.0, None, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, None, 1.0, 1.0]
    row = only(changes(side(here), side(there), 0.05))
    assert (row.n, row.verdict) == (4, "too few rounds")
    assert row.note == "failed here: Worker 1 ended (1 of 6); failed there: Worker 1 ended (1 of 6)"
    assert row.ratio == pytest.approx(2 ** (1 / 4))
    assert row.low is None


@pytest.mark.parametrize(
    ("here", "there", "verdict"),
    [
        ([None] * 6, STEADY, "fails"),
        (STEADY, [None] * 6, "not compared"),
        ([None] * 6, [None] * 6, "fails in both"),
        ([None] * 4 + [1.0] * 2, [1.0] * 2 + [None] * 4, "fails in both"),
        ([None] * 4 + [1.0] * 3, [None] * 3 + [1.0] * 4, "too few rounds"),
        ([None] * 5 + [1.0], STEADY, "fails"),
        ([None] * 2 + [1.0] * 4, STEADY, "fails"),
        ([None] * 2 + [1.0] * 8, [*STEADY, 1.0, 1.0, 1.0, 1.0], "fails"),
        ([None] * 3 + [1.0] * 3, [None] + [1.0] * 5, "fails"),
        ([None] * 2 + [1.0] * 4, [None] + [1.0] * 5, "too few rounds"),
        ([None] + [1.0] * 5, STEADY, "too few rounds"),
        ([None], [1.0], "fails"),
        (STEADY, [None] * 5 + [1.0], "too few rounds"),
    ],
)
def test_what_fails_here_alone_is_told_from_what_cannot_be_compared(here, there, verdict):
    assert only(changes(side(here), side(there), 0.05)).verdict == verdict


def test_a_launch_that_is_refused_or_missing_here_counts_as_failed():
    refused = {"status": "unsupported", "reason": "It has no GPU: find one."}
    ours = side(STEADY)
    for name in ("numpy_threads-01", "numpy_threads-02"):
        ours[name] = changed(ours[name], **refused)
    assert only(changes(ours, side(STEADY), 0.05)).verdict == "fails"
    for name in ("numpy_threads-01", "numpy_threads-02"):
        del ours[name]
    row = only(changes(ours, side(STEADY), 0.05))
    assert (row.verdict, row.note) == ("fails", "not launched here (2 of 6)")


@pytest.mark.parametrize(
    ("here", "there", "verdict"),
    [({}, STEADY, "fails"), (side(STEADY, windows=[]), STEADY, "fails"), (side(STEADY), [None] * 6, "not compared")],
    ids=["no record here", "nothing clocked here", "failures there"],
)
def test_evidence_that_is_missing_here_alone_fails(here, there, verdict):
    assert only(changes(here, side(there), 0.05)).verdict == verdict


def planned(declare, **about):
    """The stage of a comparison in which both checkouts launch a strategy of this name, and another one."""
    strategy, task = declare(), dataclasses.replace(PRESETS["digits"], scaling="weak")
    launch = PlannedLaunch(strategy, 2, "throughput", 1, task, strategy.options(**about))
    small = dataclasses.replace(launch, strategy=declare("numpy_small"))
    return [Stage("round", "round 1", [launch]), Stage("smaller worlds", "smaller worlds", [small])]


def test_a_planned_setting_without_any_record_there_is_not_compared_and_told(concluded, declare):
    here = side(STEADY[:2]) | side(STEADY, "numpy_small")
    shut, _, rows = concluded(here, {}, stages=planned(declare))
    assert [row.strategy for row in rows] == ["numpy_threads"]
    assert shut == "Nothing could be compared with main (1111111111): not launched there (2 of 2)."


@pytest.mark.parametrize(
    ("rounds", "here", "there", "verdict"),
    [(6, 3, 0, "fails"), (6, 3, 1, "within"), (6, 2, 0, "within"), (10, 4, 0, "within"), (10, 5, 0, "fails")],
)
def test_first_attempts_that_fail_here_in_half_of_the_rounds_fail_though_the_second_ones_end_well(
    rounds, here, there, verdict
):
    records = side([STEADY[number % 6] for number in range(rounds)])
    again = [*records][:here], [*records][:there]
    assert only(changes(records, records, 0.05, again=again)).verdict == verdict


def any_fails(rounds, flaky_here, flaky_there, settings):
    """In which share of simulated comparisons of so many settings any fails; so large a share of attempts fails."""
    random = np.random.default_rng(8)
    first = [random.binomial(rounds, flaky, (20_000, settings)) for flaky in (flaky_here, flaky_there)]
    twice = [random.binomial(each, flaky) for each, flaky in zip(first, (flaky_here, flaky_there), strict=True)]
    return regression.fails(rounds, *twice, *first).any(axis=1).mean()


def chance_of_any(rounds, flaky, settings):
    """The same by the binomial distribution, where both sides are alike."""
    first, twice = np.array([(first, twice) for first in range(rounds + 1) for twice in range(first + 1)]).T
    chances = stats.binom.pmf(first, rounds, flaky) * stats.binom.pmf(twice, first, flaky)
    failing = regression.fails(rounds, twice[:, None], twice, first[:, None], first)
    return 1 - (1 - (chances[:, None] * chances)[failing].sum()) ** settings


@pytest.mark.parametrize("rounds", [6, 7, 10, 20])
def test_equal_flakiness_of_five_per_cent_shuts_less_than_five_per_cent_of_gates(rounds):
    simulated = any_fails(rounds, 0.05, 0.05, settings=12)
    assert simulated < 0.05
    # Four standard errors.
    assert simulated == pytest.approx(chance_of_any(rounds, 0.05, 12), abs=4 * math.sqrt(0.03 / 20_000))


@pytest.mark.parametrize(("rounds", "crashing", "least"), [(6, 5 / 6, 0.98), (6, 0.5, 0.6), (10, 0.5, 0.75)])
def test_a_change_that_makes_launches_crash_often_mostly_fails(rounds, crashing, least):
    assert any_fails(rounds, crashing, 0.05, settings=1) > least


def test_a_launch_that_is_refused_counts_among_the_first_attempts_that_failed():
    here = side(STEADY)
    here["numpy_threads-01"] = changed(
        here["numpy_threads-01"], status="unsupported", reason="It has no GPU: find one."
    )
    again = ["numpy_threads-02", "numpy_threads-03"], []
    assert only(changes(here, side(STEADY), again=again)).verdict == "fails"


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("Worker 1 ended: look into its log: there.", "Worker 1 ended"),
        ("It lost rank X.", "It lost rank X"),
        (None, ""),
    ],
)
def test_of_a_reason_the_cause_is_told_without_the_remedy(reason, cause):
    here = {name: changed(record, reason=reason) for name, record in side([None] * 6).items()}
    assert only(changes(here, side(STEADY))).note == f"failed here: {cause} (6 of 6)"


def test_what_was_made_again_is_told():
    row = only(changes(side(STEADY), side(STEADY), 0.05, again=(["numpy_threads-02"], [])))
    assert (row.verdict, row.note) == ("within", "failed at first here, and was made again (1 of 6)")


def test_a_setting_that_deviates_here_alone_has_that_verdict_and_a_row_even_without_rounds():
    setting = Configuration("numpy_threads", 2, "digits", "weak", True)
    certified = Configuration("numpy_threads", 1, "digits", "strong", True)
    made = changes(side(STEADY), side(STEADY), 0.05, {setting: "losses leave", certified: "weights off"})
    rows = {row.workers: (row.verdict, row.note, row.n) for row in made}
    assert rows == {2: ("deviates", "losses leave", 6), 1: ("deviates", "weights off", 0)}


@pytest.mark.parametrize(
    ("about", "complaint"),
    [
        ({"task": dataclasses.replace(PRESETS["digits"], batch=32)}, "batch is 64 here and 32 there"),
        ({"task": dataclasses.replace(PRESETS["digits"], steps=90)}, "steps is 300 here and 90 there"),
        ({"examples_per_step": 5}, "rows per step is 64 here and 5 there"),
    ],
)
def test_launches_at_other_work_make_no_pair(about, complaint):
    row = only(changes(side(STEADY), side(STEADY, **about), 0.05))
    assert (row.n, row.verdict) == (0, "not compared")
    assert row.note == f"not the same work: {complaint} (6 of 6)"


def test_a_launch_without_a_window_makes_no_pair():
    row = only(changes(side(STEADY), side(STEADY, windows=[]), 0.05))
    assert (row.n, row.note) == (0, "nothing was clocked there (6 of 6)")


def test_files_and_deadlines_are_no_other_work():
    task = dataclasses.replace(PRESETS["digits"], record=Path("elsewhere.json"), deadline_seconds=9.0)
    row = only(changes(side(STEADY), side(STEADY, task=task), 0.05))
    assert (row.n, row.note) == (6, "")


def test_another_default_of_an_option_is_compared_and_told():
    ours, theirs = {"options": {"packed": True, "new": 1}}, {"options": {"packed": False}}
    row = only(changes(side(STEADY, **ours), side(STEADY, **theirs), 0.05))
    assert (row.n, row.note) == (6, "options differ: packed is True here and False there")


@pytest.fixture
def concluded(tmp_path, monkeypatch):
    """A function that concludes a comparison of these records: why its gate is shut, what was said, and the rows.

    Whether they follow the oracle is looked at only with a `certificate`: made-up ones have no losses.
    """

    def conclude(here, there, against=AGAINST, certificate=False, stages=()):
        if not certificate:
            monkeypatch.setattr(regression, "_deviating", lambda *sides: {})
        for folder, records in ((tmp_path, here), (tmp_path / RECORDS, there)):
            folder.mkdir(exist_ok=True)
            for name, record in records.items():
                write_record(folder / f"{name}.json", record)
        console = Console(width=200, record=True, quiet=False, file=io.StringIO())
        shut = regression.conclude(console, against, tmp_path, stages)
        return shut, console.export_text(), change.read(tmp_path)

    return conclude


def test_the_gate_is_open_where_something_was_compared_and_nothing_is_slower(concluded):
    few = side(STEADY[:3], "numpy_few")
    shut, said, rows = concluded(side(times(0.5)) | few, side(STEADY) | few)
    assert shut is None
    assert "2222222222 with changes against main (1111111111), of 2 settings: 1 faster, 1 not compared." in said
    assert {row.strategy: row.verdict for row in rows} == {
        "numpy_few": "too few rounds",
        "numpy_threads": "faster",
    }


def test_the_gate_is_shut_where_something_is_slower_or_fails(concluded):
    here = side(times(1.2)) | side([None] * 6, "numpy_broken") | side(STEADY, "numpy_same")
    there = side(STEADY) | side(STEADY, "numpy_broken") | side(STEADY, "numpy_same")
    shut, said, _ = concluded(here, there)
    assert shut == (
        "Slower than main (1111111111) by more than 5 %: numpy_threads with 2 workers, digits weak (1.200 times the "
        "seconds per step, 1.200 to 1.200); fails here more often than with main (1111111111): numpy_broken with 2 "
        "workers, digits weak (failed here: Worker 1 ended (6 of 6))."
    )
    assert "note: numpy_broken with 2 workers, digits weak: failed here: Worker 1 ended (6 of 6)" in said
    assert "of 3 settings: 1 slower, 1 within 5 %, 1 fails here." in said


def test_all_that_is_slower_is_named(concluded):
    here = side(times(1.2)) | side(times(1.3), "numpy_too")
    shut, _, _ = concluded(here, side(STEADY) | side(STEADY, "numpy_too"))
    assert "1.200 to 1.200), numpy_too with 2 workers, digits weak (1.300 times" in shut


def test_the_table_has_a_line_for_every_setting(concluded):
    here = side(times(1.2)) | side(STEADY[:3], "numpy_few") | side([None] * 6, "numpy_broken")
    there = side(STEADY) | side(STEADY[:3], "numpy_few") | side(STEADY, "numpy_broken")
    _, said, _ = concluded(here, there)
    lines = [
        re.split(r" *[\N{BOX DRAWINGS LIGHT VERTICAL}\N{BOX DRAWINGS HEAVY VERTICAL}] *", each)
        for each in said.splitlines()
    ]
    assert [line[1:-1] for line in lines if len(line) > 2] == [
        ["setting", "n", "ms here", "ms there", "ratio", "95 % interval", "verdict"],
        ["numpy_broken with 2 workers, digits weak", "0", "-", "-", "-", "-", "fails"],
        ["numpy_few with 2 workers, digits weak", "3", "1000", "1000", "1.000", "-", "too few rounds"],
        ["numpy_threads with 2 workers, digits weak", "6", "1200", "1000", "1.200", "1.200 to 1.200", "slower"],
    ]


def test_settings_and_commits_are_named_in_words():
    assert Configuration("a", 1, "digits", "weak", False).in_words() == "a with 1 worker without exchange, digits weak"
    row, commit = only(changes(side(STEADY), side(STEADY))), "0123456789abcdef"
    assert dataclasses.replace(row, rev="0123", commit=commit).commit_in_words() == "0123456789"
    assert dataclasses.replace(row, rev="main", commit=commit).commit_in_words() == "main (0123456789)"
    assert dataclasses.replace(row, here=commit).here_in_words() == "0123456789"
    assert dataclasses.replace(row, here=f"{commit}+changes").here_in_words() == "0123456789 with changes"


def test_one_setting_is_one_setting(concluded):
    _, said, _ = concluded(side(STEADY), side(STEADY))
    assert "of 1 setting: 1 within 5 %." in said


def test_a_name_that_looks_like_a_number_stays_a_name(concluded, tmp_path):
    _, _, rows = concluded(side(STEADY, "1e3"), side(STEADY, "1e3"))
    assert [row.strategy for row in rows] == ["1e3"]
    assert (tmp_path / change.FILE).read_text().startswith("strategy,")


def test_what_was_planned_is_known_by_its_strategy_with_its_label(concluded, declare):
    options = {"prefetch": 1, "exchange": False}
    here = side(STEADY[:2], "numpy_bare") | side(STEADY[:3], label="1 prefetch", options=options)
    _, _, rows = concluded(here, {}, stages=planned(declare, **options))
    assert [(row.strategy, row.exchange, row.n) for row in rows] == [("numpy_threads, 1 prefetch", False, 0)]


def test_what_was_made_again_is_known_by_the_files_of_first_attempts(concluded, tmp_path):
    (tmp_path / RECORDS).mkdir()
    for name in (f"{RECORDS}/numpy_threads-01.json.first", "numpy_threads-02.json.first", "numpy_threads-02.log.first"):
        (tmp_path / name).touch()
    _, _, rows = concluded(side(STEADY), side(STEADY))
    assert only(rows).note == (
        "failed at first here, and was made again (1 of 6); failed at first there, and was made again (1 of 6)"
    )


def test_the_evidence_of_both_checkouts_is_looked_for_in_their_own_folders(tmp_path):
    (tmp_path / RECORDS).mkdir()
    records = named(make_record(workers=2, evidence_sha256="0" * 64))
    found = [certificate.compare(records, folder)[0].note for folder in (tmp_path, tmp_path / RECORDS)]
    assert found[0] != found[1]
    assert regression._deviating(records, records, tmp_path) == {}


def test_the_rounds_that_it_takes_are_those_of_a_verdict_by_interval():
    noisy = [1.0, 1.3, 0.8, 1.2, 0.9, 1.1]
    row = only(changes(side(noisy), side([1.0] * 6), 0.05))
    [judgement] = judge([[math.log(each) for each in noisy]], 0.05, by_interval=True)
    assert (row.fewest, row.most) == (judgement.needed.fewest, judgement.needed.most)
    assert judge([[math.log(each) for each in noisy]], 0.05)[0].needed != judgement.needed


def test_a_setting_that_deviates_keeps_its_notes():
    here, there = side([*STEADY[:5], None]), side(STEADY)
    setting = Configuration("numpy_threads", 2, "digits", "weak", True)
    row = only(changes(here, there, 0.05, {setting: "wrong losses"}))
    assert (row.verdict, row.note) == ("deviates", "wrong losses; failed here: Worker 1 ended (1 of 6)")


def test_a_setting_without_a_pair_has_no_numbers():
    row = only(changes(side([None] * 6), side(STEADY), 0.05))
    assert row.n == 0
    numbers = (row.here_seconds, row.there_seconds, row.ratio, row.low, row.high, row.fewest, row.most)
    assert numbers == (None,) * 7


def test_failures_in_half_of_the_rounds_of_both_leave_too_few_rounds():
    half = [*STEADY[:4], *[None] * 4]
    assert only(changes(side(half), side(half), 0.05)).verdict == "too few rounds"
    most = [*STEADY[:3], *[None] * 5]
    assert only(changes(side(most), side(most), 0.05)).verdict == "fails in both"


def test_equal_times_are_within_a_tolerance_of_nothing():
    assert only(changes(side(STEADY), side(STEADY), 0.0)).verdict == "within"


def test_what_was_made_again_is_told_of_each_side():
    again = ["numpy_threads-01"], ["numpy_threads-02", "numpy_threads-03"]
    row = only(changes(side(STEADY), side(STEADY), 0.05, again=again))
    assert row.note == (
        "failed at first here, and was made again (1 of 6); failed at first there, and was made again (2 of 6)"
    )


def test_all_options_that_differ_are_told():
    ours, theirs = {"options": {"packed": True, "size": 1}}, {"options": {"packed": False, "size": 2}}
    row = only(changes(side(STEADY, **ours), side(STEADY, **theirs), 0.05))
    assert row.note == "options differ: packed is True here and False there, size is 1 here and 2 there"


@pytest.mark.parametrize(
    ("here", "there", "reason"),
    [
        (STEADY[:4], STEADY[:4], "4 rounds were made, and it takes 6: raise --minutes, or name fewer --strategies."),
        (STEADY[:1], STEADY[:1], "1 round was made, and it takes 6: raise --minutes, or name fewer --strategies."),
        (STEADY, [None] * 6, "failed there: Worker 1 ended (6 of 6)."),
    ],
)
def test_the_gate_is_shut_where_nothing_was_compared(concluded, here, there, reason):
    shut, _, _ = concluded(side(here), side(there))
    assert shut == f"Nothing could be compared with main (1111111111): {reason}"


def test_the_gate_is_shut_where_nothing_was_launched(concluded):
    shut, _, rows = concluded({}, {})
    assert shut == "Nothing could be compared: no launch was made with both checkouts."
    assert rows == []


@pytest.mark.parametrize(("here", "there", "shuts"), [(True, False, True), (False, True, False), (True, True, False)])
def test_the_gate_is_shut_where_something_deviates_here_and_not_there_however_fast_it_is(concluded, here, there, shuts):
    def rounds(is_wrong, milliseconds):
        records = [make_record("amber_ring", 2, (milliseconds + number / 100,) * 3) for number in range(6)]
        wrong = reading(records[0].task, "OWN_SHARD", 2, records[0].shard_losses, "Gradients aren't exchanged.")
        return named(*(changed(record, reading=wrong) if is_wrong else record for record in records))

    shut, said, made = concluded(rounds(here, 1.0), rounds(there, 2.0), certificate=True)
    assert only(made).ratio == pytest.approx(0.5, rel=0.05)
    if shuts:
        assert shut.startswith(
            "Doesn't follow the oracle here: amber_ring with 2 workers, digits weak (Gradients aren't exchanged.)"
        )
        assert "1 deviates from the oracle." in said
    else:
        assert shut is None


def test_what_was_written_is_what_is_read(concluded, tmp_path):
    against = dataclasses.replace(AGAINST, rev="NA", commit="0" * 40, here="1" * 40, notes=("One.", "Two."))
    here, there = side(times(1.2)) | side([None] * 6, "numpy_broken"), side(STEADY) | side(STEADY, "numpy_broken")
    _, said, rows = concluded(here, there, against)
    assert rows == regression.changes(here, there, against)
    about = [(row.rev, row.commit, row.here, row.tolerance, row.notes) for row in rows]
    assert about == 2 * [("NA", "0" * 40, "1" * 40, 0.05, "One. Two.")]
    assert "1 fails here. One. Two." in said


def test_a_table_of_an_earlier_version_is_read(concluded, tmp_path):
    """Where a row has no number of rounds, all were written with a point."""
    _, _, [row] = concluded(side([1.0, 1.3, 0.8, 1.2, 0.9, 1.1]), side([1.0] * 6))
    path, rounds = tmp_path / change.FILE, [int(row.fewest), int(row.most)]
    whole, pointed = f",{rounds[0]},{rounds[1]},", f",{rounds[0]}.0,{rounds[1]}.0,"
    assert whole in path.read_text()
    path.write_text(path.read_text().replace(whole, pointed))
    assert change.read(tmp_path) == [row]


def test_without_such_a_comparison_there_is_nothing_to_read(tmp_path):
    assert change.read(tmp_path) == []


@pytest.mark.parametrize("text", ["", "strategy,n\none,many\n", '"'])
def test_a_damaged_table_is_refused(tmp_path, refusal, text):
    (tmp_path / change.FILE).write_text(text)
    assert refusal(lambda: change.read(tmp_path)).startswith(str(tmp_path / change.FILE))


def test_both_checkouts_make_a_launch_in_turns_that_alternate(declare, monkeypatch, tmp_path):
    made = []

    def run(launch, folder, place):
        made.append((launch.repetition, folder, place.root))
        return records[place.root]

    monkeypatch.setattr(executor, "run_planned", run)
    strategy, other = declare(), tmp_path / "against"
    records = dict(zip((ROOT, other), side([1.0, 2.0]).values(), strict=True))
    for repetition in (1, 2):
        launch = PlannedLaunch(strategy, 2, "throughput", repetition, PRESETS["digits"], strategy.options())
        assert regression.run_both(launch, tmp_path, other) == (records[ROOT], records[other])
    ours, theirs = (tmp_path, ROOT), (tmp_path / RECORDS, other)
    assert made == [(1, *ours), (1, *theirs), (2, *theirs), (2, *ours)]


@pytest.mark.parametrize("second", ["ok", "failed"])
def test_a_launch_that_fails_is_made_again_once_and_its_first_attempt_is_kept(declare, monkeypatch, tmp_path, second):
    statuses = {ROOT: ["failed", second], tmp_path / "other": ["ok"]}
    ok, failed = side([1.0, None]).values()

    def run(launch, folder, place):
        folder.mkdir(exist_ok=True)
        record = ok if statuses[place.root].pop(0) == "ok" else failed
        (folder / f"{launch.name}.log").write_text(f"attempt with {len(statuses[place.root])} to come")
        write_record(folder / f"{launch.name}.json", record)
        return record

    monkeypatch.setattr(executor, "run_planned", run)
    strategy = declare()
    launch = PlannedLaunch(strategy, 2, "throughput", 1, PRESETS["digits"], strategy.options())
    here, there = regression.run_both(launch, tmp_path, tmp_path / "other")
    assert (here.status, there.status) == (second, "ok")
    assert not any(statuses.values())
    assert (tmp_path / f"{launch.name}.log.first").read_text() == "attempt with 1 to come"
    assert (tmp_path / f"{launch.name}.json.first").exists()
    assert not [*(tmp_path / RECORDS).glob("*.first")]
    assert [*read_records(tmp_path, Record)] == [launch.name]
    # Made anew after an interruption.
    statuses |= {ROOT: ["ok"], tmp_path / "other": ["ok"]}
    regression.run_both(launch, tmp_path, tmp_path / "other")
    assert not [*tmp_path.glob("*.first")]


@pytest.mark.parametrize("repetition", [1, 2])
def test_half_of_a_pair_does_not_count_when_it_is_interrupted(declare, monkeypatch, tmp_path, repetition):
    [record] = side([1.0]).values()
    sides = []

    def run(launch, folder, place):
        sides.append(folder)
        if len(sides) == 2:
            raise KeyboardInterrupt
        folder.mkdir(exist_ok=True)
        write_record(folder / f"{launch.name}.json", record)
        return record

    monkeypatch.setattr(executor, "run_planned", run)
    strategy = declare()
    launch = PlannedLaunch(strategy, 2, "throughput", repetition, PRESETS["digits"], strategy.options())
    with pytest.raises(KeyboardInterrupt):
        regression.run_both(launch, tmp_path, tmp_path / "other")
    assert sorted(sides) == [tmp_path, tmp_path / RECORDS]
    assert [*read_records(tmp_path, Record), *read_records(tmp_path / RECORDS, Record)] == []
    assert manifest.read(tmp_path) == {}


def test_what_both_checkouts_left_is_noted(declare, monkeypatch, tmp_path):
    [record] = side([1.0]).values()

    def run(launch, folder, place):
        folder.mkdir(exist_ok=True)
        write_record(folder / f"{launch.name}.json", record)
        (folder / f"{launch.name}.safetensors").touch()
        return record

    monkeypatch.setattr(executor, "run_planned", run)
    strategy = declare()
    launch = PlannedLaunch(strategy, 2, "throughput", 1, PRESETS["digits"], strategy.options())
    regression.run_both(launch, tmp_path, tmp_path / "other")
    # This checkout's is noted by the session, as that of any launch.
    assert [*manifest.read(tmp_path)] == [f"{RECORDS}/{launch.name}.json", f"{RECORDS}/{launch.name}.safetensors"]


def test_both_checkouts_make_what_tells_the_speed_in_rounds_and_nothing_else(declare):
    strategy = declare()
    clocked = PlannedLaunch(strategy, 2, "throughput", 1, PRESETS["digits"], strategy.options())
    certified = dataclasses.replace(clocked, purpose="certificate")
    stages = [Stage(name, name, [clocked, certified]) for name in ("round", "certificates", "smaller worlds")]
    paired = [(stage.name, each) for stage in stages for each in stage.launches if regression.is_paired(stage, each)]
    assert paired == [("round", clocked)]
