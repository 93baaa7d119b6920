"""common/sessions/regression.py: what pairs of launches say of a change, and when its gate is shut."""

import io
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from scipy import stats

from common.contract.task import PRESETS
from common.launching import executor
from common.paths import ROOT
from common.records import certificate, change, manifest
from common.records.change import Configuration
from common.records.files import from_json, read_records, write_record
from common.records.training import Record, Window
from common.sessions import regression
from common.sessions.other_checkout import RECORDS, Against
from common.sessions.session import Stage
from common.statistics.paired import judge
from tests.common.launching.test_executor import launch_of
from tests.reports.records import make_record, mistaken, named

AGAINST = Against("main", "1" * 40, "2" * 40 + "+changes", 0.05)

STEADY = (1.0, 1.001, 0.999, 1.001, 0.999, 1.0)
"""Seconds per step of six rounds, with little spread."""

NOISY = (1.0, 1.3, 0.8, 1.2, 0.9, 1.1)

DIGITS = PRESETS["digits"]


def side(seconds, name="numpy_threads", **changes):
    """One checkout's records by launch: a round for each of these seconds per step, None where it failed."""
    known = {"strategy": name, "world_size": 2, "synchronous": True, "scaling": "weak", "threads_per_worker": 1}
    known |= {"examples_per_step": 64, "task": DIGITS, "started_at": "2026-01-01T00:00:00.000+00:00"}
    failed = {"status": "failed", "reason": "Worker 1 ended: look into its log."}
    ended = [
        failed if each is None else {"status": "ok", "windows": [Window(rank=0, step=10, steps=10, seconds=10 * each)]}
        for each in seconds
    ]
    return {
        f"{name}-{number:02d}": from_json(known | each | changes, Record) for number, each in enumerate(ended, start=1)
    }


def times(factor, seconds=STEADY):
    return [factor * each for each in seconds]


def changes(here, there, tolerance=0.05, **about):
    return regression.changes(here, there, replace(AGAINST, tolerance=tolerance), **about)


def change_of(here, there, tolerance=0.05, **about):
    """The only row of these two sides, each of which may be no more than its seconds per step."""
    records = [each if isinstance(each, dict) else side(each) for each in (here, there)]
    [row] = changes(*records, tolerance, **about)
    return row


# What the times say


@pytest.mark.parametrize(
    ("factor", "tolerance", "verdict"),
    [
        *[(1.06, 0.05, "slower"), (1.03, 0.05, "within"), (0.97, 0.05, "within"), (0.94, 0.05, "faster")],
        (1.06, 0.5, "within"),
    ],
)
def test_a_verdict_is_given_where_the_whole_interval_lies_on_one_side(factor, tolerance, verdict):
    row = change_of(times(factor, STEADY[::-1]), STEADY, tolerance)
    assert (row.verdict, row.n, row.note) == (verdict, 6, "")
    assert row.low < row.ratio < row.high
    assert row.ratio == pytest.approx(factor, rel=1e-6)


def test_the_interval_is_that_of_log_ratios_in_one_family_of_all_settings_with_enough_rounds():
    ratios, there = [1.1, 1.3, 1.2, 1.25, 1.15, 1.2], [1.0, 2.0, 3.0, 1.0, 5.0, 1.0]
    here = [ratio * seconds for ratio, seconds in zip(ratios, there, strict=True)]
    others = side(STEADY, "numpy_others") | side(STEADY[:5], "numpy_few")
    row = changes(side(here) | others, side(there) | others)[-1]
    logs = [math.log(ratio) for ratio in ratios]
    mean = sum(logs) / 6
    error = math.sqrt(sum((each - mean) ** 2 for each in logs) / 5 / 6)
    # 3.163381: Student's t with 5 degrees of freedom at 98.75 %, from a table.
    assert row.low == pytest.approx(math.exp(mean - 3.163381 * error), rel=1e-6)
    assert row.high == pytest.approx(math.exp(mean + 3.163381 * error), rel=1e-6)


@given(
    st.lists(st.tuples(st.floats(0.5, 2.0), st.floats(0.5, 2.0)), min_size=6, max_size=12),
    st.sampled_from([0.0, 0.05, 0.5]),
)
def test_exchanging_both_checkouts_turns_every_finding_round(seconds, tolerance):
    here, there = zip(*seconds, strict=True)
    one, other = change_of(here, there, tolerance), change_of(there, here, tolerance)
    assert other.ratio == pytest.approx(1 / one.ratio)
    assert (other.low, other.high) == (pytest.approx(1 / one.high), pytest.approx(1 / one.low))
    turned = {"slower": "faster", "faster": "slower"}
    assert other.verdict == turned.get(one.verdict, one.verdict)


def test_what_cannot_be_told_is_said_with_the_rounds_that_a_verdict_by_interval_takes():
    [judgement] = judge([[math.log(each) for each in NOISY]], 0.05, by_interval=True)
    fewest, most = judgement.needed.fewest, judgement.needed.most
    for here, tolerance, words in [
        (NOISY, 0.05, f"can't tell: it takes {fewest:.0f} to {most:.0f} rounds for 80 % power"),
        (NOISY, 0.007, " to more than 10,000 rounds for 80 % power"),
        (NOISY, 0.0, "can't tell: it takes more than 10,000 rounds for 80 % power"),
        (times(1.05), 0.05, "can't tell: it is about as large as the tolerance"),
    ]:
        assert change_of(here, [1.0] * 6, tolerance).verdict_in_words().endswith(words)


# What is compared


def test_settings_have_rows_of_their_own_and_what_one_checkout_alone_launches_has_none():
    there = side(STEADY) | side(STEADY, "numpy_alone", options={"exchange": False})
    there |= side(STEADY, "numpy_one", world_size=1)
    here = there | side(STEADY, "numpy_certified")
    assert [row.in_words() for row in changes(here, there)] == [
        "numpy_alone with 2 workers without exchange, digits weak",
        "numpy_one with 1 worker, digits weak",
        "numpy_threads with 2 workers, digits weak",
    ]


def test_rounds_in_which_either_failed_make_no_pair_and_are_told():
    row = change_of([8.0, None, 2.0, 9.0, 4.0, 12.0], [4.0, 5.0, 1.0, None, 2.0, 6.0])
    assert (row.n, row.verdict, row.low) == (4, "too few rounds", None)
    assert row.note == "failed here: Worker 1 ended (1 of 6); failed there: Worker 1 ended (1 of 6)"
    # Medians of the rounds that both have.
    assert (row.here_seconds, row.there_seconds, row.ratio) == pytest.approx((6.0, 3.0, 2.0))


@pytest.mark.parametrize(
    ("ours", "theirs", "n", "note"),
    [
        ({}, {"task": replace(DIGITS, batch=32)}, 0, "not the same work: batch is 64 here and 32 there (6 of 6)"),
        ({}, {"examples_per_step": 5}, 0, "not the same work: rows per step is 64 here and 5 there (6 of 6)"),
        ({}, {"windows": []}, 0, "nothing was clocked there (6 of 6)"),
        ({}, {"task": replace(DIGITS, record=Path("elsewhere.json"), deadline_seconds=9.0)}, 6, ""),
        (
            {"options": {"packed": True, "size": 1, "new": 1}},
            {"options": {"packed": False, "size": 2}},
            *(6, "options differ: packed is True here and False there, size is 1 here and 2 there"),
        ),
    ],
)
def test_other_work_makes_no_pair_and_options_that_differ_are_told(ours, theirs, n, note):
    row = change_of(side(STEADY, **ours), side(STEADY, **theirs))
    assert (row.n, row.note, row.verdict) == (n, note, "within" if n else "not compared")


# What fails


@pytest.mark.parametrize(
    ("here", "there", "verdict"),
    [
        ([None] * 6, STEADY, "fails"),
        (STEADY, [None] * 6, "not compared"),
        ([None] * 6, [None] * 6, "fails in both"),
        ([1.0] * 3 + [None] * 5, [1.0] * 3 + [None] * 5, "fails in both"),
        ([1.0] * 4 + [None] * 4, [1.0] * 4 + [None] * 4, "too few rounds"),
        ([None] * 2 + [1.0] * 8, [*STEADY, 1.0, 1.0, 1.0, 1.0], "fails"),
        ([None] * 3 + [1.0] * 3, [None] + [1.0] * 5, "fails"),
        ([None] * 2 + [1.0] * 4, [None] + [1.0] * 5, "too few rounds"),
        ([None], [1.0], "fails"),
        (STEADY, [None] * 5 + [1.0], "too few rounds"),
    ],
)
def test_what_fails_here_alone_is_told_from_what_cannot_be_compared(here, there, verdict):
    row = change_of(here, there)
    assert row.verdict == verdict
    if row.n == 0:
        numbers = (row.here_seconds, row.there_seconds, row.ratio, row.low, row.high, row.fewest, row.most)
        assert numbers == (None,) * 7


REFUSED = {"status": "unsupported", "reason": "It has no GPU."}


@pytest.mark.parametrize(
    ("here", "note"),
    [
        ({}, "not launched here (6 of 6)"),
        (side([None] * 2 + [1.0] * 4, **REFUSED), "unsupported here: It has no GPU (6 of 6)"),
        (side(STEADY, windows=[]), "nothing was clocked here (6 of 6)"),
        (side(STEADY[:4]), "not launched here (2 of 6)"),
    ],
)
def test_evidence_that_is_missing_here_alone_fails_and_the_cause_is_told_without_the_remedy(here, note):
    row = change_of(here, STEADY)
    assert (row.verdict, row.note) == ("fails", note)


@pytest.mark.parametrize(
    ("rounds", "here", "there", "verdict"),
    [(6, 3, 0, "fails"), (6, 3, 1, "within"), (6, 2, 0, "within"), (10, 4, 0, "within"), (10, 5, 0, "fails")],
)
def test_first_attempts_that_fail_here_in_half_of_the_rounds_fail_though_the_second_ones_end_well(
    rounds, here, there, verdict
):
    records = side([STEADY[number % 6] for number in range(rounds)])
    row = change_of(records, records, again=([*records][:here], [*records][:there]))
    assert row.verdict == verdict
    told = [f"failed at first here, and was made again ({here} of {rounds})"]
    told += [f"failed at first there, and was made again ({there} of {rounds})"] if there else []
    assert row.note == "; ".join(told)


def test_a_round_that_failed_for_good_counts_among_those_that_failed_at_first():
    here = side([None, *STEADY[1:]])
    assert change_of(here, side(STEADY), again=([*here][1:3], [])).verdict == "fails"


def chance_that_any_fails(rounds, flaky_here, flaky_there, settings=1):
    """By the binomial distribution, where attempts fail with these probabilities."""
    first, twice = np.array([(first, twice) for first in range(rounds + 1) for twice in range(first + 1)]).T
    here, there = (
        stats.binom.pmf(first, rounds, flaky) * stats.binom.pmf(twice, first, flaky)
        for flaky in (flaky_here, flaky_there)
    )
    failing = regression.fails(rounds, twice[:, None], twice, first[:, None], first)
    return 1 - (1 - (here[:, None] * there)[failing].sum()) ** settings


def test_equal_flakiness_of_five_per_cent_shuts_less_than_five_per_cent_of_gates_and_frequent_crashes_most():
    assert all(chance_that_any_fails(rounds, 0.05, 0.05, settings=12) < 0.05 for rounds in (6, 7, 20))
    assert chance_that_any_fails(6, 5 / 6, 0.05) > 0.98
    assert chance_that_any_fails(6, 0.5, 0.05) > 0.6


def test_a_setting_that_deviates_has_that_verdict_and_a_row_even_without_rounds():
    measured = Configuration("numpy_threads", 2, "digits", "weak", True)
    certified = Configuration("numpy_threads", 1, "digits", "strong", True)
    made = changes(
        side([*STEADY[:5], None]), side(STEADY), deviating={measured: "losses leave", certified: "weights off"}
    )
    assert {row.workers: (row.verdict, row.note, row.n) for row in made} == {
        2: ("deviates", "losses leave; failed here: Worker 1 ended (1 of 6)", 5),
        1: ("deviates", "weights off", 0),
    }


# The gate


@pytest.fixture
def concluded(tmp_path):
    """A function that concludes a comparison of these records: why its gate is shut, what was said, and the rows."""

    def conclude(here, there, against=AGAINST, stages=()):
        for folder, records in ((tmp_path, here), (tmp_path / RECORDS, there)):
            for name, record in records.items():
                write_record(folder / f"{name}.json", record)
        console = Console(width=200, record=True, file=io.StringIO())
        shut = regression.conclude(console, against, tmp_path, stages)
        return shut, console.export_text(), change.read(tmp_path)

    return conclude


def test_the_gate_is_shut_where_something_is_slower_or_fails_and_a_table_and_a_file_have_each_setting(concluded):
    # Names that pandas takes for something else.
    against = replace(AGAINST, rev="NA", commit="0" * 40, here="1" * 40, notes=("One.", "Two."))
    here = FEW | side([None] * 6, "numpy_broken") | side(times(1.2), "numpy_slow") | side(times(1.3), "numpy_slower")
    there = FEW | side(STEADY, "numpy_broken") | side(STEADY, "numpy_slow") | side(STEADY, "numpy_slower")
    shut, said, rows = concluded(here, there, against)
    assert shut == (
        "Slower than NA (0000000000) by more than 5 %: numpy_slow with 2 workers, digits weak (1.200 times the "
        "seconds per step, 1.200 to 1.200), numpy_slower with 2 workers, digits weak (1.300 times the seconds per "
        "step, 1.300 to 1.300); fails here more often than with NA (0000000000): numpy_broken with 2 workers, digits "
        "weak (failed here: Worker 1 ended (6 of 6))."
    )
    assert "of 4 settings: 2 slower, 1 fails here, 1 not compared. One. Two." in said
    assert "note: numpy_broken with 2 workers, digits weak: failed here: Worker 1 ended (6 of 6)" in said
    lines = [re.split(r" *[\u2502\u2503] *", each) for each in said.splitlines()]
    assert [line[1:-1] for line in lines if len(line) > 2] == [
        ["setting", "n", "ms here", "ms there", "ratio", "95 % interval", "verdict"],
        ["numpy_broken with 2 workers, digits weak", "0", "-", "-", "-", "-", "fails"],
        ["numpy_few with 2 workers, digits weak", "3", "1000", "1000", "1.000", "-", "too few rounds"],
        ["numpy_slow with 2 workers, digits weak", "6", "1200", "1000", "1.200", "1.200 to 1.200", "slower"],
        ["numpy_slower with 2 workers, digits weak", "6", "1300", "1000", "1.300", "1.300 to 1.300", "slower"],
    ]
    assert rows == regression.changes(here, there, against)
    assert {(row.rev, row.commit, row.here, row.tolerance, row.notes) for row in rows} == {
        ("NA", "0" * 40, "1" * 40, 0.05, "One. Two.")
    }


FEW = side(STEADY[:3], "numpy_few")


@pytest.mark.parametrize(
    ("here", "there", "shut", "said"),
    [
        (side(times(0.5)) | FEW, side(STEADY) | FEW, None, "of 2 settings: 1 faster, 1 not compared."),
        (
            *(FEW, FEW, " with main (1111111111): 3 rounds were made, and it takes 6: raise --minutes, or name fewer"),
            "2222222222 with changes against main (1111111111), of 1 setting: 1 not compared.",
        ),
        (side(STEADY), side([None] * 6), " with main (1111111111): failed there: Worker 1 ended (6 of 6).", ""),
        ({}, {}, ": no launch was made with both checkouts.", ""),
    ],
)
def test_the_gate_is_open_only_where_something_was_compared(concluded, here, there, shut, said):
    why, printed, _ = concluded(here, there)
    assert said in printed
    if shut is None:
        assert why is None
    else:
        assert why.startswith(f"Nothing could be compared{shut}")


@pytest.mark.parametrize(("here", "there", "shuts"), [(True, False, True), (False, True, False), (True, True, False)])
def test_the_gate_is_shut_where_something_deviates_here_and_not_there_however_fast_it_is(
    concluded, monkeypatch, tmp_path, here, there, shuts
):
    compare, places = certificate.compare, []
    monkeypatch.setattr(
        certificate, "compare", lambda records, folder: places.append(folder) or compare(records, folder)
    )

    def rounds(is_wrong, milliseconds):
        records = [make_record("amber_ring", 2, (milliseconds + number / 100,) * 3) for number in range(6)]
        return named(*(mistaken(record, "Summed.") if is_wrong else record for record in records))

    shut, said, [row] = concluded(rounds(here, 1.0), rounds(there, 2.0))
    assert row.ratio == pytest.approx(0.5, rel=0.05)
    deviates = "Doesn't follow the oracle here: amber_ring with 2 workers, digits weak (Summed.)"
    assert (shut or "").startswith(deviates) == shuts
    assert ("1 deviates from the oracle." in said) == bool(shut) == shuts
    assert places == [tmp_path, tmp_path / RECORDS]


@pytest.mark.parametrize("options", [{}, {"prefetch": 1, "exchange": False}])
def test_what_both_were_to_launch_has_a_row_though_the_other_left_no_record(concluded, declare, options):
    launch = launch_of(declare(), replace(DIGITS, scaling="weak", workers=2), **options)
    small = replace(launch, strategy=declare("numpy_small"))
    stages = [Stage("round", "round 1", [launch]), Stage("smaller worlds", "smaller worlds", [small])]
    label = "1 prefetch" if options else ""
    here = side(STEADY[:2], label=label, options=options) | side(STEADY, "numpy_small")
    shut, _, [row] = concluded(here, {}, stages=stages)
    name = "numpy_threads, 1 prefetch" if options else "numpy_threads"
    assert (row.strategy, row.exchange, row.n) == (name, not options, 0)
    assert shut == "Nothing could be compared with main (1111111111): not launched there (2 of 2)."


def test_what_was_made_again_is_known_by_the_files_of_first_attempts(concluded, tmp_path):
    (tmp_path / RECORDS).mkdir()
    for name in (f"{RECORDS}/numpy_threads-01.json", "numpy_threads-02.json", "numpy_threads-03.json"):
        (tmp_path / f"{name}.first").touch()
    _, _, [row] = concluded(side(STEADY), side(STEADY))
    assert row.note == (
        "failed at first here, and was made again (2 of 6); failed at first there, and was made again (1 of 6)"
    )


def test_a_commit_that_was_asked_for_by_its_hash_is_named_once():
    row = replace(change_of(STEADY, STEADY), rev="0123", commit="0123456789abcdef", here="abcdef012345")
    assert (row.commit_in_words(), row.here_in_words()) == ("0123456789", "abcdef0123")


# The launches of both checkouts


@pytest.fixture
def run_both(declare, monkeypatch, tmp_path):
    """A function that makes a launch with both checkouts, and returns both records and where each attempt was made.

    The attempts end, in their order, with these seconds per step, with None as failed ones, or by an interruption.
    """

    def run(*endings, repetition=1):
        attempts = []

        def run_planned(launch, folder, place):
            ending = endings[len(attempts)]
            attempts.append((folder, place.root))
            if ending is KeyboardInterrupt:
                raise ending
            [record] = side([ending]).values()
            write_record(folder / f"{launch.name}.json", record)
            (folder / f"{launch.name}.safetensors").touch()
            (folder / f"{launch.name}.log").write_text(f"attempt {len(attempts)}")
            return record

        monkeypatch.setattr(executor, "run_planned", run_planned)
        launch = launch_of(declare(), replace(DIGITS, workers=2), repetition)
        try:
            return regression.run_both(launch, tmp_path, tmp_path / "other"), attempts
        except KeyboardInterrupt:
            return None, attempts

    return run


NAME = "numpy_threads-digits-strong-2w"


def test_both_checkouts_make_a_launch_in_turns_that_alternate_and_what_the_other_left_is_noted(run_both, tmp_path):
    ours, theirs = (tmp_path, ROOT), (tmp_path / RECORDS, tmp_path / "other")
    for repetition, (here, there), order in ((1, (1.0, 2.0), [ours, theirs]), (2, (2.0, 1.0), [theirs, ours])):
        records, attempts = run_both(1.0, 2.0, repetition=repetition)
        assert [record.windows[0].seconds for record in records] == [10 * here, 10 * there]
        assert attempts == order
    # This checkout's is noted by the session, as that of any launch.
    left = [f"{RECORDS}/{NAME}-0{number}{ending}" for number in (1, 2) for ending in (".json", ".safetensors")]
    assert [*manifest.read(tmp_path)] == left


@pytest.mark.parametrize("second", [1.0, None])
def test_a_launch_that_fails_is_made_again_once_and_its_first_attempt_is_kept(run_both, tmp_path, second):
    (here, there), attempts = run_both(None, second, 2.0)
    assert (here.status, there.status) == ("failed" if second is None else "ok", "ok")
    assert [folder for folder, _ in attempts] == [tmp_path, tmp_path, tmp_path / RECORDS]
    assert (tmp_path / f"{NAME}-01.log.first").read_text() == "attempt 1"
    kept = {path.name for path in tmp_path.rglob("*.first")}
    assert kept == {f"{NAME}-01.log.first", f"{NAME}-01.json.first"}
    assert [*read_records(tmp_path, Record)] == [f"{NAME}-01"]
    # Made anew after an interruption.
    run_both(1.0, 2.0)
    assert not [*tmp_path.rglob("*.first")]


@pytest.mark.parametrize("repetition", [1, 2])
def test_half_of_a_pair_does_not_count_when_it_is_interrupted(run_both, tmp_path, repetition):
    _, attempts = run_both(1.0, KeyboardInterrupt, repetition=repetition)
    assert sorted(folder for folder, _ in attempts) == [tmp_path, tmp_path / RECORDS]
    assert [*tmp_path.rglob("*.json")] == []
    assert not any(name.endswith(".json") for name in manifest.read(tmp_path))
