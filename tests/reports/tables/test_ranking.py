"""Who is faster than whom, who isn't ranked, and what one change makes of a step, on launches of which it is known."""

import math
from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest

from common.declarations.strategy import CONVENIENCE_OF
from common.observations.launches import observed
from common.records.certificate import DEVIATES, OTHER_MATHS, REASONS
from common.records.training import Record
from common.statistics import paired
from common.statistics.paired import smallest_difference
from reports.tables import ranking, summaries
from reports.tables.ranking import Ranking
from reports.words import certainty as words
from tests.changes import changed
from tests.reports.records import MadeUpOptions, make_record, named, over_hosts, varied

DRIFT = (1.0, 1.4, 0.8, 1.9, 1.1, 2.5, 0.9, 1.6, 1.2, 0.7)


def launches(milliseconds: Mapping[str, float], workers: int = 2, n: int = 6, **facts: object) -> pd.DataFrame:
    """The rows of `summaries.launches` that a ranking reads: n launches of each strategy, of so many ms a step.

    Rounds drift, and launches spread by about a per cent.
    """
    rows = []
    for index, (name, each) in enumerate(milliseconds.items()):
        noise = np.random.default_rng(index).standard_normal(n)
        for number in range(1, n + 1):
            time = each * DRIFT[number - 1] * (1 + noise[number - 1] / 100)
            known = {"launch": f"{name}-{workers}-{number}", "strategy": name, "round": number, "seconds": time / 1000}
            rows.append(known | {"samples_per_second": 64_000 * workers / time, "global_batch": 64 * workers})
    known = {"regime": "weak", "workers": workers, "exchange": True, "oversubscribed": False}
    known |= {"hosts": 1, "placement": "", "bandwidth_bits_per_second": math.nan}
    known |= {"input_seconds": math.nan, "rank_spread": math.nan}
    return pd.DataFrame(rows).assign(**known | {"synchronous": True, "same_maths": True} | facts)


def ranked(launch_table: pd.DataFrame, reasons: Mapping[tuple[str, int], str] | None = None, margin: float = 0.05):
    """The tests of these launches, each of whom is certified but for those with a reason."""
    plan = launch_table[["launch"]].assign(repetition=launch_table["round"])
    return ranking.rank(launch_table, observed(launch_table, plan), margin, defaultdict(str, reasons or {}))


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
    found = ranked(table, margin=0.06).comparisons
    assert pairs_of(ranked(table)) == [("a", "b"), ("a", "c"), ("b", "c")]
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
    assert found["other_rate"].tolist() == pytest.approx(128 / seconds.median()[["b", "c", "c"]].to_numpy())


def test_each_placement_is_a_family_of_its_own_and_what_the_machine_can_show_is_that_over_the_fastest_link():
    over_links = [placed({"a": 3.0, "b": 2.0}, 2, megabits) for megabits in (100, 10)]
    found = ranked(pd.concat([launches({"a": 1.0, "b": 1.2}), *over_links, placed({"a": 1.0}, 2)]))
    slow, fast = "2 hosts, 10 Mbit/s", "2 hosts, 100 Mbit/s"
    assert pairs_of(found) == [("a", "b"), (f"b, {slow}", f"a, {slow}"), (f"b, {fast}", f"a, {fast}")]
    assert found.comparisons["placement"].tolist() == ["", slow, fast]
    assert found.comparisons["hosts"].tolist() == [1, 2, 2]
    assert f" with 2 workers on {fast} and " in words.resolution(found, "weak")


def factors(*records: Record, plan: pd.DataFrame | None = None) -> pd.DataFrame:
    return ranking.factors(summaries.launches(named(*records)), plan)


def test_what_convenience_costs_is_the_median_over_pairs_of_the_same_round():
    own = [make_record("cobalt_replicas", 2, (time,) * 3) for time in (1.0, 2.0, 4.0, 1.0, 1.0, 1.0)]
    keras = [make_record("cobalt_library", 2, (time,) * 3) for time in (3.0, 6.0, 12.0, 2.9, 3.1, 3.2)]
    alone = make_record("cobalt_library", 4, (9.0,) * 3)
    [row] = factors(*own, *keras, alone).to_dict("records")
    assert (row["first"], row["second"], row["workers"]) == ("cobalt_replicas", "cobalt_library", 2)
    assert (row["pairs"], row["factor"]) == (6, pytest.approx(3.0))
    assert (row["low"], row["high"]) == (pytest.approx(2.9), pytest.approx(3.2))
    assert (row["first_seconds"], row["second_seconds"]) == (pytest.approx(0.001), pytest.approx(0.00315))
    assert row["regime"].startswith("weak: --preset digits")


def test_the_table_has_every_change_of_one_thing_and_the_same_options_of_a_library():
    records = [make_record(name, 2) for name in ("amber_ring", "amber_library", "teal_amber")]
    records += [varied(name, 2, (6.0,) * 3, compiled=True) for name in ("amber_ring", "amber_library")]
    records += [make_record("amber_threads", 2, rank_factors=(1.0,))]
    found = factors(*records)
    assert found[["change", "first", "second"]].to_numpy().tolist() == [
        ["options", "amber_library", "amber_library, compiled"],
        ["options", "amber_ring", "amber_ring, compiled"],
        ["library's loop", "amber_ring", "amber_library"],
        ["library's loop", "amber_ring, compiled", "amber_library, compiled"],
        ["one process", "amber_ring", "amber_threads"],
    ]
    assert found["factor"].tolist() == pytest.approx([3, 3, 1, 1, 1])


def test_launches_that_the_plan_does_not_name_make_no_pair():
    records = [make_record("cobalt_replicas", 2, (1.0,) * 3), make_record("cobalt_library", 2, (3.0,) * 3)]
    records.append(varied("cobalt_library", 2, compiled=True))
    plan = pd.DataFrame({"launch": [*named(*records)], "repetition": 1})
    assert factors(*records, plan=plan[:1]).empty
    [row] = factors(*records, plan=plan[:2]).to_dict("records")
    assert (row["second"], row["pairs"]) == ("cobalt_library", 1)


def test_steps_of_different_numbers_of_rows_are_not_compared():
    # An asynchronous step is the update of one worker, a synchronous one that of all of them.
    records = [make_record("cobalt_servers", 2, examples_per_step=64), varied("cobalt_servers", 2, updates="together")]
    assert factors(*records).empty
    other = changed(records[0], strategy="mine", compared_with={CONVENIENCE_OF: "amber_ring"})
    assert factors(make_record("amber_ring", 2), other).empty


def test_options_are_compared_with_none_on_the_same_hosts_over_the_same_link():
    plain = [over_hosts(milliseconds=(time,) * 3, megabits=megabits) for time, megabits in ((4.0, 10.0), (2.0, 100.0))]
    compiled = over_hosts(milliseconds=(3.0,) * 3, megabits=10.0, options=MadeUpOptions(compiled=True))
    here = make_record("amber_ring", 2, (1.0,) * 3)
    [row] = factors(*plain, compiled, here).to_dict("records")
    assert (row["first"], row["second"]) == (
        "amber_ring, 2 hosts, 10 Mbit/s",
        "amber_ring, compiled, 2 hosts, 10 Mbit/s",
    )
    assert row["factor"] == pytest.approx(0.75)


def test_who_is_not_ranked_stands_in_one_sentence_with_all_reasons():
    table = pd.concat(
        [
            *(launches({"a": 1.0, "b": 1.2, "half": 0.5}, workers) for workers in (1, 2)),
            launches({"a": 1.0, "servers": 1.0, "wrong": 1.0}, 4, oversubscribed=True),
            launches({"c": 1.0, "d": 1.0}, n=2),
        ]
    )
    reasons = {("half", 1): REASONS[OTHER_MATHS], ("half", 2): REASONS[OTHER_MATHS], ("wrong", 4): REASONS[DEVIATES]}
    found = ranked(table, reasons)
    assert words.not_ranked(found, "weak") == (
        "wrong at 4, for not following the oracle; half at 1 and 2, for computing other maths; a at 4 and servers at "
        "4, for more threads than cores; c at 2 and d at 2, for too few rounds."
    )
    tested = found.comparisons[found.comparisons["n"] >= 6]
    assert tested[["strategy", "other", "workers"]].to_numpy().tolist() == [["a", "b", 1], ["a", "b", 2]]
    assert found.unranked.set_index("strategy")["n"].to_dict() == {
        **{"half": 0, "a": 0, "servers": 0, "wrong": 0, "c": 2, "d": 2}
    }


def sharing_three_rounds(first: str, second: str) -> pd.DataFrame:
    """Nine rounds of three strategies, of which the first has the first six and the second the last six."""
    table = launches({"a": 1.0, "b": 1.2, "c": 1.5}, n=9)
    table = table[(table["strategy"] != first) | (table["round"] < 7)]
    return table[(table["strategy"] != second) | (table["round"] > 3)]


def test_who_shares_six_rounds_with_somebody_is_ranked_however_few_with_others():
    found = ranked(sharing_three_rounds("b", "c"))
    assert found.comparisons["n"].tolist() == [6, 6, 3]
    assert words.not_ranked(found, "weak") == ""


def test_records_are_ranked_by_the_rows_that_they_compute():
    # 128 rows in 2 ms, and synchronous steps of 64 rows in 1.5 ms.
    whole = [make_record("amber_ring", 2, (2.0 + index / 100,) * 2) for index in range(6)]
    half = [make_record("amber_parts", 2, (1.5 + index / 100,) * 2, examples_per_step=64) for index in range(6)]
    table = summaries.launches(named(*whole, *half)).assign(round=[*range(1, 7)] * 2)
    assert pairs_of(ranked(table)) == [("amber_ring", "amber_parts")]


def test_what_the_machine_can_show_is_what_the_test_finds_with_eighty_per_cent_power():
    found = ranked(launches({"a": 1.0, "b": 1.2, "c": 1.5}))
    spreads = [np.std(logs, ddof=1) for logs in found.comparisons["logs"]]
    smallest = sorted(100 * smallest_difference(spread, 6, 3) for spread in spreads)
    assert words.resolution(found, "weak") == (
        f"Today this machine can show differences from {smallest[1]:.1f} % on with 2 workers and n = 6 rounds (with "
        f"80 % power, by the median spread of 3 comparisons; {smallest[2]:.1f} % by the largest)."
    )
    alone = words.resolution(ranked(launches({"a": 1.0, "b": 1.2})), "weak")
    assert alone.endswith("with 2 workers and n = 6 rounds (with 80 % power, by the spread of the only comparison).")
    assert words.resolution(ranked(launches({"a": 1.0, "b": 1.2}, n=5)), "weak") == ""
    # The pair of b and c shares three rounds, which are too few.
    assert "the median spread of 2 comparisons" in words.resolution(ranked(sharing_three_rounds("b", "c")), "weak")
