"""Who is faster than whom, who isn't ranked, and what one change makes of a step, on launches of which it is known."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
import pytest

from common.declarations.strategy import CONVENIENCE_OF
from common.observations.launches import observed
from common.records.certificate import ALL_REASONS, OTHER_MATHS, REASONS
from common.records.training import Record
from common.statistics import paired
from common.statistics.paired import smallest_difference
from reports.tables import ranking, summaries
from reports.tables.columns import COLUMNS
from reports.tables.ranking import Ranking
from reports.words import certainty as words
from tests.changes import changed
from tests.reports.records import MadeUpOptions, make_record, named, over_hosts, varied

DRIFT = (1.0, 1.4, 0.8, 1.9, 1.1, 2.5, 0.9, 1.6, 1.2, 0.7)


def launches(milliseconds: Mapping[str, float | Sequence[float]], workers: int = 2, n: int = 6, **facts: object):
    """The rows of `summaries.launches` that a ranking reads: n launches of each strategy, of so many ms a step.

    One number is that of every round, but for the drift and a spread of about a per cent.
    """
    rows = []
    for index, (name, times) in enumerate(milliseconds.items()):
        if isinstance(times, float):
            noise = np.random.default_rng(index).standard_normal(n)
            times = [times * drift * (1 + each / 100) for drift, each in zip(DRIFT, noise, strict=False)]
        for number, time in enumerate(times, start=1):
            known = {"launch": f"{name}-{workers}-{number}", "strategy": name, "round": number, "seconds": time / 1000}
            rows.append(known | {"samples_per_second": 64_000 * workers / time, "global_batch": 64 * workers})
    known = {"regime": "weak", "workers": workers, "exchange": True, "oversubscribed": False}
    known |= {"hosts": 1, "placement": "", "bandwidth_bits_per_second": math.nan}
    known |= {"input_seconds": math.nan, "rank_spread": math.nan}
    return pd.DataFrame(rows).assign(**known | {"synchronous": True, "same_maths": True} | facts)


def planned(launch_table: pd.DataFrame) -> pd.DataFrame:
    return launch_table[["launch"]].assign(repetition=launch_table["round"])


CERTIFIED = defaultdict(str)


def judged(launch_table: pd.DataFrame, margin: float = 0.05) -> Ranking:
    """The tests of these launches, each of whom is certified."""
    return ranked(launch_table, planned(launch_table), CERTIFIED, margin)


def ranked(
    launch_table: pd.DataFrame,
    plan: pd.DataFrame | None,
    certificate: Mapping[tuple[str, int], str],
    margin: float = 0.05,
) -> Ranking:
    return ranking.rank(launch_table, observed(launch_table, plan), margin, certificate)


def pairs_of(found: Ranking) -> list[tuple[str, str]]:
    """Who was compared with whom, the faster first."""
    return list(zip(found.comparisons["strategy"], found.comparisons["other"], strict=True))


def placed(milliseconds: Mapping[str, float], hosts: int, megabits: float | None = None, **facts: object):
    """Launches of strategies that are all on so many hosts."""
    placement = f"{hosts} hosts" + (f", {megabits:g} Mbit/s" if megabits else "")
    known = {"hosts": hosts, "placement": placement} | facts
    known["bandwidth_bits_per_second"] = megabits * 1e6 if megabits else math.nan
    return launches({f"{name}, {placement}": time for name, time in milliseconds.items()}, **known)


def test_a_comparison_has_the_log_ratios_of_its_rounds_and_what_the_family_makes_of_them():
    table = launches({"a": 1.0, "b": 1.04, "c": 1.3})
    found = judged(table, 0.06).comparisons
    assert pairs_of(judged(table)) == [("a", "b"), ("a", "c"), ("b", "c")]
    seconds = table.pivot(index="round", columns="strategy", values="seconds")
    logs = [np.log(seconds[other] / seconds[one]) for one, other in (("a", "b"), ("a", "c"), ("b", "c"))]
    expected = paired.judge([each.to_numpy() for each in logs], 0.06)
    for name in ("n", "ratio", "low", "high", "p", "verdict"):
        assert found[name].tolist() == pytest.approx([getattr(each, name) for each in expected])
    assert found["logs"].tolist() == [pytest.approx(each.tolist()) for each in logs]
    assert found["rounds"].tolist() == [[1, 2, 3, 4, 5, 6]] * 3
    assert found["fewest"].tolist() == [each.needed.fewest for each in expected]
    assert found["most"].tolist() == [each.needed.most for each in expected]
    assert found["rate"].tolist() == pytest.approx(128 / seconds.median()[["a", "a", "b"]].to_numpy())


def test_what_the_certificate_does_not_know_is_a_mistake():
    with pytest.raises(KeyError):
        ranked(launches({"a": 1.0, "b": 1.2}), None, {("a", 2): ""})


def test_each_placement_is_a_family_of_its_own_and_nobody_is_compared_across():
    table = pd.concat([launches({"a": 1.0, "b": 1.2}), placed({"a": 3.0, "b": 2.0}, 2, 10), placed({"a": 1.0}, 2)])
    found = ranked(table, None, CERTIFIED)
    assert pairs_of(found) == [("a", "b"), ("b, 2 hosts, 10 Mbit/s", "a, 2 hosts, 10 Mbit/s")]
    assert found.comparisons["placement"].tolist() == ["", "2 hosts, 10 Mbit/s"]
    assert found.comparisons["hosts"].tolist() == [1, 2]


# What one change makes of a step


def table_of_factors(*records: Record, plan: pd.DataFrame | None = None) -> pd.DataFrame:
    return ranking.factors(summaries.launches(named(*records)), plan)


def rows(*records: Record, plan: pd.DataFrame | None = None) -> list[dict]:
    return table_of_factors(*records, plan=plan).to_dict("records")


def test_what_convenience_costs_is_the_median_over_pairs_of_the_same_round():
    own = [make_record("cobalt_replicas", 2, (time,) * 3) for time in (1.0, 2.0, 4.0, 1.0, 1.0, 1.0)]
    keras = [make_record("cobalt_library", 2, (time,) * 3) for time in (3.0, 6.0, 12.0, 2.9, 3.1, 3.2)]
    alone = make_record("cobalt_library", 4, (9.0,) * 3)
    [row] = rows(*own, *keras, alone)
    assert (row["first"], row["second"], row["workers"]) == ("cobalt_replicas", "cobalt_library", 2)
    assert (row["pairs"], row["factor"]) == (6, pytest.approx(3.0))
    assert (row["low"], row["high"]) == (pytest.approx(2.9), pytest.approx(3.2))
    assert (row["first_seconds"], row["second_seconds"]) == (pytest.approx(0.001), pytest.approx(0.00315))
    assert row["regime"].startswith("weak: --preset digits")


def test_a_library_that_sets_other_options_is_compared_with_the_same_ones():
    plain = [make_record("cobalt_replicas", 2, (1.0,) * 3), varied("cobalt_replicas", 2, (2.0,) * 3, compiled=True)]
    keras = varied("cobalt_library", 2, (6.0,) * 3, compiled=True)
    option, library = rows(*plain, keras)
    assert (option["first"], option["second"]) == ("cobalt_replicas", "cobalt_replicas, compiled")
    assert (library["first"], library["factor"]) == ("cobalt_replicas, compiled", pytest.approx(3.0))


def test_with_a_plan_launches_that_it_does_not_name_make_no_pair():
    records = [make_record("cobalt_replicas", 2, (1.0,) * 3), make_record("cobalt_library", 2, (3.0,) * 3)]
    records += [varied("cobalt_replicas", 2, compiled=True), varied("cobalt_library", 2, compiled=True)]
    changes = ["options", "options", "library's loop", "library's loop"]
    assert [*table_of_factors(*records)["change"]] == changes
    plan = pd.DataFrame({"launch": [*named(*records)], "repetition": 1})
    assert [*table_of_factors(*records, plan=plan)["change"]] == changes
    for named_launches in (plan[:0], plan[:1], plan.assign(launch="another")):
        assert rows(*records, plan=named_launches) == []
    [row] = rows(*records, plan=plan[:2])
    assert (row["second"], row["pairs"]) == ("cobalt_library", 1)


def test_steps_of_different_numbers_of_rows_are_not_compared():
    # An asynchronous step is the update of one worker, a synchronous one that of all of them.
    records = [make_record("cobalt_servers", 2, examples_per_step=64), varied("cobalt_servers", 2, updates="together")]
    assert rows(*records) == []
    other = changed(records[0], strategy="mine", compared_with={CONVENIENCE_OF: "amber_ring"})
    assert rows(make_record("amber_ring", 2), other) == []


@pytest.mark.parametrize("records", [[], [make_record("amber_ring", 2)]], ids=["none", "one"])
def test_without_two_launches_to_compare_there_are_columns_and_no_factor(records):
    assert rows(*records) == []
    assert [*table_of_factors(*records)] == [*COLUMNS["factors"]]


def test_options_are_compared_with_none_on_the_same_hosts_over_the_same_link():
    plain = [over_hosts(milliseconds=(time,) * 3, megabits=megabits) for time, megabits in ((4.0, 10.0), (2.0, 100.0))]
    compiled = over_hosts(milliseconds=(3.0,) * 3, megabits=10.0, options=MadeUpOptions(compiled=True))
    here = make_record("amber_ring", 2, (1.0,) * 3)
    [row] = rows(*plain, compiled, here)
    assert (row["first"], row["second"]) == (
        "amber_ring, 2 hosts, 10 Mbit/s",
        "amber_ring, compiled, 2 hosts, 10 Mbit/s",
    )
    assert row["factor"] == pytest.approx(0.75)


def test_the_table_has_every_change_of_one_thing():
    records = [make_record(name, 2) for name in ("amber_ring", "amber_library", "teal_amber")]
    records += [make_record("amber_threads", 2, rank_factors=(1.0,)), varied("amber_ring", 2, compiled=True)]
    assert table_of_factors(*records)[["change", "first", "second"]].to_numpy().tolist() == [
        ["options", "amber_ring", "amber_ring, compiled"],
        ["library's loop", "amber_ring", "amber_library"],
        ["one process", "amber_ring", "amber_threads"],
    ]


# In words


def not_ranked(found: Ranking) -> str:
    """Who isn't ranked, and why; empty where everybody is."""
    return words.not_ranked(found, "weak")


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
        assert words.resolution(found, "weak") == ""


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
    assert words.resolution(found, "weak") == (
        f"Today this machine can show differences from {smallest[1]:.1f} % on with 2 workers and n = 6 rounds (with "
        f"80 % power, by the median spread of 3 comparisons; {smallest[2]:.1f} % by the largest)."
    )
    alone = words.resolution(judged(launches({"a": 1.0, "b": 1.2})), "weak")
    assert alone.endswith("with 2 workers and n = 6 rounds (with 80 % power, by the spread of the only comparison).")
    assert words.resolution(judged(launches({"a": 1.0, "b": 1.2}, n=5)), "weak") == ""
    table = launches({"a": 1.0, "b": 1.2, "c": 1.5}, n=9)
    apart = table[
        ((table["strategy"] != "b") | (table["round"] < 7)) & ((table["strategy"] != "c") | (table["round"] > 3))
    ]
    assert "the median spread of 2 comparisons" in words.resolution(judged(apart), "weak")


def test_what_the_machine_can_show_is_that_of_most_workers_and_hosts_over_the_fastest_link():
    table = pd.concat([launches({"a": 1.0, "b": 1.2}), *(placed({"a": 1.0, "b": 1.2}, 2, each) for each in (100, 10))])
    assert " with 2 workers on 2 hosts, 100 Mbit/s and " in words.resolution(ranked(table, None, CERTIFIED), "weak")
