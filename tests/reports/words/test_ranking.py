"""What the tests could tell, and who isn't ranked and why, on made-up launches of which it is known."""

from collections import defaultdict

import numpy as np
import pandas as pd
import pytest

from common.records.certificate import ALL_REASONS, OTHER_MATHS, REASONS
from common.statistics.paired import smallest_difference
from reports.tables import summaries
from reports.tables.ranking import Ranking
from reports.words import ranking
from tests.reports.families import CERTIFIED, judged, launches, pairs_of, placed, ranked
from tests.reports.records import make_record, named, varied


def not_ranked(found: Ranking) -> str:
    """Who isn't ranked, and why; empty where everybody is."""
    return ranking.not_ranked(found, "weak")


@pytest.mark.parametrize("reason", [*ALL_REASONS, ""])
def test_who_the_certificate_has_a_reason_for_is_not_ranked_where_it_has_and_named(reason):
    table = pd.concat([launches({"a": 1.0, "b": 1.2}, workers) for workers in (1, 2)])
    found = ranked(table, None, defaultdict(str, {("a", 2): reason}))
    assert found.comparisons["workers"].tolist() == ([1] if reason else [1, 2])
    assert not_ranked(found) == (f"a at 2, {reason}." if reason else "")
    row = {"regime": "weak", "workers": 2, "hosts": 1, "placement": "", "strategy": "a", "reason": reason, "n": 0}
    assert found.unranked.to_dict("records") == ([row] if reason else [])


@pytest.mark.parametrize("reason", [*ALL_REASONS, ""])
def test_who_has_more_threads_than_cores_is_not_ranked_and_named_for_that_unless_it_deviates(reason):
    table = pd.concat([launches({"a": 1.0, "b": 1.2}), launches({"other": 0.5}, oversubscribed=True)])
    found = ranked(table, None, defaultdict(str, {("other", 2): reason}))
    assert pairs_of(found) == [("a", "b")]
    stands = reason if reason == "for not following the oracle" else "for more threads than cores"
    assert not_ranked(found) == f"other at 2, {stands}."


def test_who_is_not_ranked_stands_in_one_sentence_with_all_reasons():
    table = pd.concat(
        [
            *(launches({"a": 1.0, "b": 1.2, "half": 0.5}, workers) for workers in (1, 2)),
            launches({"a": 1.0, "servers": 1.0}, 4, oversubscribed=True),
            launches({"c": 1.0, "d": 1.0}, n=2),
        ]
    )
    reasons = dict.fromkeys([("half", 1), ("half", 2)], REASONS[OTHER_MATHS])
    assert not_ranked(ranked(table, None, defaultdict(str, reasons))) == (
        "half at 1 and 2, for computing other maths; a at 4 and servers at 4, for more threads than cores; c at 2 and "
        "d at 2, for too few rounds."
    )


def test_who_shares_six_rounds_with_somebody_is_ranked_however_few_with_others():
    table = launches({"a": 1.0, "b": 1.2, "c": 1.5, "d": 2.0}, n=9)
    table = table[(table["strategy"] != "c") | (table["round"] < 7)]
    table = table[(table["strategy"] != "d") | (table["round"] > 3)]
    assert judged(table).comparisons["n"].tolist() == [9, 6, 6, 6, 6, 3]
    assert not_ranked(judged(table)) == ""


def test_without_launches_there_is_nothing_to_rank():
    for plan in (None, pd.DataFrame({"launch": [], "repetition": []})):
        found = ranked(summaries.launches({}), plan, CERTIFIED)
        assert found.comparisons.empty
        assert ranking.resolution(found, "weak") == ""


def test_records_are_ranked_by_the_rows_that_they_compute():
    # 128 rows in 2 ms, and synchronous steps of 64 rows in 1.5 ms.
    whole = [make_record("amber_ring", 2, (2.0 + index / 100,) * 2) for index in range(6)]
    half = [make_record("amber_parts", 2, (1.5 + index / 100,) * 2, examples_per_step=64) for index in range(6)]
    rounded = [varied("amber_ring", 2, (1.0 + index / 100,) * 2, half_precision=True) for index in range(6)]
    records = named(*whole, *half, *rounded)
    table = summaries.launches(records)
    reasons = {("amber_ring, half_precision, other maths", 2): REASONS[OTHER_MATHS]}
    found = ranked(table, None, defaultdict(str, reasons))
    assert pairs_of(found) == [("amber_ring", "amber_parts")]
    assert found.unranked["strategy"].tolist() == ["amber_ring, half_precision, other maths"]


def test_what_the_machine_can_show_is_what_the_test_finds_with_eighty_per_cent_power():
    found = judged(launches({"a": 1.0, "b": 1.2, "c": 1.5}))
    spreads = [np.std(logs, ddof=1) for logs in found.comparisons["logs"]]
    smallest = sorted(100 * smallest_difference(spread, 6, 3) for spread in spreads)
    assert ranking.resolution(found, "weak") == (
        f"Today this machine can show differences from {smallest[1]:.1f} % on with 2 workers and n = 6 rounds (with "
        f"80 % power, by the median spread of 3 comparisons; {smallest[2]:.1f} % by the largest)."
    )
    alone = ranking.resolution(judged(launches({"a": 1.0, "b": 1.2})), "weak")
    assert alone.endswith("with 2 workers and n = 6 rounds (with 80 % power, by the spread of the only comparison).")
    assert ranking.resolution(judged(launches({"a": 1.0, "b": 1.2}, n=5)), "weak") == ""
    table = launches({"a": 1.0, "b": 1.2, "c": 1.5}, n=9)
    apart = table[
        ((table["strategy"] != "b") | (table["round"] < 7)) & ((table["strategy"] != "c") | (table["round"] > 3))
    ]
    assert "the median spread of 2 comparisons" in ranking.resolution(judged(apart), "weak")


def test_what_the_machine_can_show_is_that_of_most_workers_and_hosts_over_the_fastest_link():
    table = pd.concat([launches({"a": 1.0, "b": 1.2}), *(placed({"a": 1.0, "b": 1.2}, 2, each) for each in (100, 10))])
    assert " with 2 workers on 2 hosts, 100 Mbit/s and " in ranking.resolution(ranked(table, None, CERTIFIED), "weak")
