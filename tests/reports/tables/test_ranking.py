"""Who is faster than whom, who isn't ranked, and what one change makes of a step, on launches of which it is known."""

from collections import defaultdict
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from common.declarations.strategy import CONVENIENCE_OF
from common.records.training import Record
from common.statistics import paired
from common.statistics.paired import smallest_difference
from reports.tables import ranking
from reports.tables.material import Material
from reports.words import certainty as words
from tests.changes import changed
from tests.reports.materials import material_of
from tests.reports.records import MadeUpOptions, in_rounds, make_record, mistaken, over_hosts, varied

DRIFT = (1.0, 1.4, 0.8, 1.9, 1.1, 2.5, 0.9, 1.6, 1.2)


def launches(milliseconds: Mapping[str, float], workers: int = 2, n: int = 6, hosts: int = 1, **facts) -> list[Record]:
    """n launches of each strategy, of so many ms a step; rounds drift, and launches spread by about a per cent."""
    noise = np.random.default_rng(0)
    times = [(name, each * drift) for name, each in milliseconds.items() for drift in DRIFT[:n]]
    spread = [(name, (time * (1 + noise.standard_normal() / 100),) * 2) for name, time in times]
    return [over_hosts(name, workers, hosts, each, **facts) for name, each in spread]


def pairs_of(material: Material) -> list[tuple[str, str]]:
    """Who was compared with whom, the faster first."""
    return list(zip(material.comparisons["strategy"], material.comparisons["other"], strict=True))


def said(sentence: Callable[..., str], material: Material) -> str:
    return sentence(material.ranking, material.regimes[0])


def test_a_comparison_has_the_log_ratios_of_its_rounds_and_what_the_family_makes_of_them():
    material = material_of(*launches({"a": 1.0, "b": 1.04, "c": 1.3}), rounds=[*range(1, 7)] * 3)
    material.results.plan["margin"] = 0.06
    found, pairs = material.comparisons, [("a", "b"), ("a", "c"), ("b", "c")]
    assert pairs_of(material) == pairs
    seconds = material.launches.groupby("strategy")["seconds"].agg(np.array)
    logs = [np.log(seconds[other] / seconds[one]) for one, other in pairs]
    expected = paired.judge(logs, 0.06)
    for name in ("n", "ratio", "low", "high", "p", "verdict"):
        assert found[name].tolist() == pytest.approx([getattr(each, name) for each in expected])
    assert found["logs"].tolist() == [pytest.approx(each.tolist()) for each in logs]
    assert found["rounds"].tolist() == [[1, 2, 3, 4, 5, 6]] * 3
    assert found["fewest"].tolist() == [each.needed.fewest for each in expected]
    assert found["most"].tolist() == [each.needed.most for each in expected]
    assert found["rate"].tolist() == pytest.approx([128 / np.median(seconds[one]) for one, _ in pairs])
    assert found["other_rate"].tolist() == pytest.approx([128 / np.median(seconds[other]) for _, other in pairs])


def test_each_placement_is_a_family_of_its_own_and_what_the_machine_can_show_is_that_over_the_fastest_link():
    records = launches({"a": 1.0, "b": 1.2})
    records += launches({"a": 1.0}, hosts=2, megabits=None)
    for megabits in (1000.0, 200.0):
        records += launches({"a": 3.0, "b": 2.0}, hosts=2, megabits=megabits)
    material, slow, fast = material_of(*records), "2 hosts, 200 Mbit/s", "2 hosts, 1000 Mbit/s"
    assert pairs_of(material) == [("a", "b"), (f"b, {slow}", f"a, {slow}"), (f"b, {fast}", f"a, {fast}")]
    assert material.comparisons["placement"].tolist() == ["", slow, fast]
    assert material.comparisons["hosts"].tolist() == [1, 2, 2]
    assert f" with 2 workers on {fast} and " in said(words.resolution, material)


def test_what_convenience_costs_is_the_median_over_pairs_of_the_same_round():
    own = [make_record("cobalt_replicas", 2, (time,) * 3) for time in (1.0, 2.0, 4.0, 1.0, 1.0, 1.0)]
    keras = [make_record("cobalt_library", 2, (time,) * 3) for time in (3.0, 6.0, 12.0, 2.9, 3.1, 3.2)]
    alone = make_record("cobalt_library", 4, (9.0,) * 3)
    [row] = material_of(*own, *keras, alone).factors.to_dict("records")
    assert (row["first"], row["second"], row["workers"]) == ("cobalt_replicas", "cobalt_library", 2)
    assert (row["pairs"], row["factor"]) == (6, pytest.approx(3.0))
    assert (row["low"], row["high"]) == (pytest.approx(2.9), pytest.approx(3.2))
    assert (row["first_seconds"], row["second_seconds"]) == (pytest.approx(0.001), pytest.approx(0.00315))
    assert row["regime"].startswith("weak: --preset digits")


def test_the_table_has_every_change_of_one_thing_and_the_same_options_of_a_library():
    # One without exchange makes no pair.
    records = [varied("amber_ring", 2, exchange=False)]
    records += [make_record(name, 2) for name in ("amber_ring", "amber_library", "teal_amber")]
    records += [varied(name, 2, (6.0,) * 3, compiled=True) for name in ("amber_ring", "amber_library")]
    records += [make_record("amber_threads", 2, rank_factors=(1.0,))]
    found = material_of(*records).factors
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
    assert material_of(*records, rounds=[1]).factors.empty
    [row] = material_of(*records, rounds=[1, 1]).factors.to_dict("records")
    assert (row["second"], row["pairs"]) == ("cobalt_library", 1)


def test_steps_of_different_numbers_of_rows_are_not_compared():
    # An asynchronous step is the update of one worker, a synchronous one that of all of them.
    records = [make_record("cobalt_servers", 2, examples_per_step=64), varied("cobalt_servers", 2, updates="together")]
    assert material_of(*records).factors.empty
    other = changed(records[0], strategy="mine", compared_with={CONVENIENCE_OF: "amber_ring"})
    assert material_of(make_record("amber_ring", 2), other).factors.empty


def test_options_are_compared_with_none_on_the_same_hosts_over_the_same_link():
    plain = [over_hosts(milliseconds=(time,) * 3, megabits=megabits) for time, megabits in ((4.0, 10.0), (2.0, 100.0))]
    compiled = over_hosts(milliseconds=(3.0,) * 3, megabits=10.0, options=MadeUpOptions(compiled=True))
    here = make_record("amber_ring", 2, (1.0,) * 3)
    [row] = material_of(*plain, compiled, here).factors.to_dict("records")
    assert (row["first"], row["second"]) == (
        "amber_ring, 2 hosts, 10 Mbit/s",
        "amber_ring, compiled, 2 hosts, 10 Mbit/s",
    )
    assert row["factor"] == pytest.approx(0.75)


def test_who_is_not_ranked_stands_in_one_sentence_with_all_reasons():
    rounded = MadeUpOptions(half_precision=True)
    records = [*launches({"a": 1.0, "servers": 1.0}, 4, oversubscribed=True), *launches({"c": 1.0, "d": 1.0}, n=2)]
    records += [mistaken(record) for record in launches({"wrong": 1.0}, 4, oversubscribed=True)]
    for workers in (1, 2):
        records += launches({"a": 1.0, "b": 1.2}, workers) + launches({"half": 0.5}, workers, options=rounded)
    material = material_of(*records)
    assert said(words.not_ranked, material) == (
        "wrong at 4, for not following the oracle; half, half_precision, other maths at 1 and 2, for computing other "
        "maths; a at 4 and servers at 4, for more threads than cores; c at 2 and d at 2, for too few rounds."
    )
    assert said(words.not_ranked, material_of(*launches({"a": 1.0, "b": 1.0}, n=5))) == ""
    assert said(words.not_ranked, material_of(mistaken(make_record("wrong", 2)))).startswith("wrong at 2, for not")
    tested = material.comparisons[material.comparisons["n"] >= 6]
    assert tested[["strategy", "other", "workers"]].to_numpy().tolist() == [["a", "b", 1], ["a", "b", 2]]
    assert material.ranking.unranked.set_index("strategy")["n"].to_dict() == {
        **{"half, half_precision, other maths": 0, "a": 0, "servers": 0, "wrong": 0, "c": 2, "d": 2}
    }


def sharing_three_rounds(first: str, second: str) -> Material:
    """Nine rounds of three strategies, of which the first has the first six and the second the last six."""
    numbers = {"a": range(1, 10), "b": range(1, 10), "c": range(1, 10)} | {first: range(1, 7), second: range(4, 10)}
    of_nine = zip([*range(1, 10)] * 3, launches({"a": 1.0, "b": 1.2, "c": 1.5}, n=9), strict=True)
    rounds, records = zip(*((number, each) for number, each in of_nine if number in numbers[each.name]), strict=True)
    return material_of(*records, rounds=rounds)


def test_who_shares_six_rounds_with_somebody_is_ranked_however_few_with_others():
    material = sharing_three_rounds("b", "c")
    assert material.comparisons["n"].tolist() == [6, 6, 3]
    assert said(words.not_ranked, material) == ""


def test_who_shares_no_round_with_anybody_is_not_ranked_beside_those_that_do():
    records = [*launches({"a": 1.0, "b": 1.2}), *launches({"c": 1.5}, n=1)]
    material = material_of(*records, rounds=[*range(1, 7), *range(1, 7), 7])
    assert said(words.not_ranked, material) == "c at 2, for too few rounds."
    assert material.ranking.unranked["n"].tolist() == [0]
    alone = material_of(*launches({"a": 1.0}))
    assert alone.ranking.unranked.empty


def test_records_are_ranked_by_the_rows_that_they_compute():
    # 128 rows in 2 ms, and synchronous steps of 64 rows in 1.5 ms.
    material = material_of(*in_rounds("amber_ring", 2.0), *in_rounds("amber_parts", 1.5, examples_per_step=64))
    found = ranking.rank(material.launches, material.observed, 0.05, defaultdict(str)).comparisons
    assert found[["strategy", "other"]].to_numpy().tolist() == [["amber_ring", "amber_parts"]]


def test_what_the_machine_can_show_is_what_the_test_finds_with_eighty_per_cent_power():
    three, two = {"a": 1.0, "b": 1.2, "c": 1.5}, {"a": 1.0, "b": 1.2}
    material = material_of(*launches(three))
    spreads = [np.std(logs, ddof=1) for logs in material.comparisons["logs"]]
    smallest = sorted(100 * smallest_difference(spread, 6, 3) for spread in spreads)
    assert said(words.resolution, material) == (
        f"Today this machine can show differences from {smallest[1]:.1f} % on with 2 workers and n = 6 rounds (with "
        f"80 % power, by the median spread of 3 comparisons; {smallest[2]:.1f} % by the largest)."
    )
    alone = "with 2 workers and n = 6 rounds (with 80 % power, by the spread of the only comparison)."
    assert said(words.resolution, material_of(*launches(two))).endswith(alone)
    assert said(words.resolution, material_of(*launches(two, n=5))) == ""
    # The pair of b and c shares three rounds, which are too few.
    assert "the median spread of 2 comparisons" in said(words.resolution, sharing_three_rounds("b", "c"))
