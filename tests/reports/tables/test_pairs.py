"""Factors between launches of the same round, against ones worked out by hand."""

import math

import pandas as pd
import pytest

from common.declarations.strategy import CONVENIENCE_OF, ONE_PROCESS_OF
from common.statistics.intervals import Interval
from reports.tables import pairs, summaries
from reports.tables.columns import COLUMNS
from tests.changes import changed
from tests.reports.records import MadeUpOptions, make_record, named, over_hosts, varied


def convenience(launches: pd.DataFrame, plan: pd.DataFrame | None) -> pd.DataFrame:
    return pairs.factors(launches, plan, CONVENIENCE_OF)


def test_what_convenience_costs_is_the_median_over_pairs_of_the_same_round():
    own = [make_record("cobalt_replicas", 2, (time,) * 3) for time in (1.0, 2.0, 4.0, 1.0, 1.0, 1.0)]
    keras = [make_record("cobalt_library", 2, (time,) * 3) for time in (3.0, 6.0, 12.0, 2.9, 3.1, 3.2)]
    alone = make_record("cobalt_library", 4, (9.0,) * 3)
    [row] = convenience(summaries.launches(named(*own, *keras, alone)), None).to_dict("records")
    assert (row["first"], row["second"], row["workers"]) == ("cobalt_replicas", "cobalt_library", 2)
    assert (row["pairs"], row["factor"]) == (6, pytest.approx(3.0))
    assert (row["low"], row["high"]) == (pytest.approx(2.9), pytest.approx(3.2))
    assert (row["first_seconds"], row["second_seconds"]) == (pytest.approx(0.001), pytest.approx(0.00315))
    assert row["regime"].startswith("weak: --preset digits")


def test_what_options_of_a_strategys_own_cost_is_over_the_same_strategy_with_none():
    records = [make_record("cobalt_replicas", 2, (2.0,) * 3), varied("cobalt_replicas", 2, (3.0,) * 3, compiled=True)]
    [row] = pairs.against_default(summaries.launches(named(*records)), None).to_dict("records")
    assert (row["first"], row["second"]) == ("cobalt_replicas", "cobalt_replicas, compiled")
    assert (row["first_seconds"], row["second_seconds"]) == (pytest.approx(0.002), pytest.approx(0.003))
    assert row["factor"] == pytest.approx(1.5)


def test_replicas_in_one_process_are_paired_with_replicas_in_a_process_each():
    records = named(
        make_record("amber_ring", 2, (2.0,) * 3),
        make_record("amber_threads", 2, (3.0,) * 3, rank_factors=(1.0,)),
        make_record("amber_library", 2, (5.0,) * 3),
    )
    [row] = pairs.factors(summaries.launches(records), None, ONE_PROCESS_OF).to_dict("records")
    assert (row["first"], row["second"], row["factor"]) == ("amber_ring", "amber_threads", pytest.approx(1.5))
    [row] = convenience(summaries.launches(records), None).to_dict("records")
    assert (row["first"], row["second"], row["factor"]) == ("amber_ring", "amber_library", pytest.approx(2.5))


def test_launches_of_different_rounds_make_no_pair():
    records = named(make_record("cobalt_replicas", 2, (1.0,) * 3), make_record("cobalt_library", 2, (3.0,) * 3))
    plan = pd.DataFrame({"launch": [*records], "repetition": [1, 2]})
    launches = summaries.launches(records)
    assert convenience(launches, plan).empty
    [row] = convenience(launches, plan.assign(repetition=1)).to_dict("records")
    assert row["pairs"] == 1
    assert math.isnan(row["low"])
    assert math.isnan(row["high"])


def test_a_library_that_sets_other_options_is_compared_with_the_same_ones():
    plain = [make_record("cobalt_replicas", 2, (1.0,) * 3), varied("cobalt_replicas", 2, (2.0,) * 3, compiled=True)]
    keras = varied("cobalt_library", 2, (6.0,) * 3, compiled=True)
    [row] = convenience(summaries.launches(named(*plain, keras)), None).to_dict("records")
    assert (row["first"], row["factor"]) == ("cobalt_replicas, compiled", pytest.approx(3.0))


def test_a_strategy_nobody_knows_is_paired_with_the_one_that_its_record_names():
    mine = changed(make_record("mine", 2, (6.0,) * 3), compared_with={CONVENIENCE_OF: "yours"})
    yours = make_record("yours", 2, (2.0,) * 3)
    [row] = convenience(summaries.launches(named(mine, yours)), None).to_dict("records")
    assert (row["first"], row["second"], row["factor"]) == ("yours", "mine", pytest.approx(3.0))


def test_with_a_plan_launches_that_it_does_not_name_make_no_pair():
    records = named(
        *[make_record("cobalt_replicas", 2, (1.0,) * 3), make_record("cobalt_library", 2, (3.0,) * 3)],
        *[varied("cobalt_replicas", 2, compiled=True), varied("cobalt_library", 2, compiled=True)],
    )
    launches = summaries.launches(records)
    assert len(convenience(launches, None)) == 2
    assert len(pairs.against_default(launches, None)) == 2
    plan = pd.DataFrame({"launch": [*records], "repetition": 1})
    for named_launches in (plan[:0], plan[:1], plan.assign(launch="another")):
        assert convenience(launches, named_launches).empty
        assert pairs.against_default(launches, named_launches).empty
    [row] = convenience(launches, plan[:2]).to_dict("records")
    assert (row["second"], row["pairs"]) == ("cobalt_library", 1)


def test_steps_of_different_numbers_of_rows_are_not_compared():
    # An asynchronous step is the update of one worker, a synchronous one that of all of them.
    records = [make_record("cobalt_servers", 2, examples_per_step=64), varied("cobalt_servers", 2, updates="together")]
    assert pairs.against_default(summaries.launches(named(*records)), None).empty
    other = changed(records[0], strategy="mine", compared_with={CONVENIENCE_OF: "amber_ring"})
    assert convenience(summaries.launches(named(make_record("amber_ring", 2), other)), None).empty


@pytest.mark.parametrize("records", [{}, named(make_record("amber_ring", 2))], ids=["none", "one"])
def test_without_two_launches_to_compare_there_are_columns_and_no_factor(records):
    launches = summaries.launches(records)
    for table in (convenience(launches, None), pairs.against_default(launches, None)):
        assert table.empty
        assert " ".join(table) == "regime first second workers pairs first_seconds second_seconds factor low high"


def test_options_are_compared_with_none_on_the_same_hosts_over_the_same_link():
    plain = [over_hosts(milliseconds=(time,) * 3, megabits=megabits) for time, megabits in ((4.0, 10.0), (2.0, 100.0))]
    compiled = over_hosts(milliseconds=(3.0,) * 3, megabits=10.0, options=MadeUpOptions(compiled=True))
    here = make_record("amber_ring", 2, (1.0,) * 3)
    found = pairs.against_default(summaries.launches(named(*plain, compiled, here)), None)
    [row] = found.to_dict("records")
    assert (row["first"], row["second"]) == (
        "amber_ring, 2 hosts, 10 Mbit/s",
        "amber_ring, compiled, 2 hosts, 10 Mbit/s",
    )
    assert row["factor"] == pytest.approx(0.75)


def test_a_library_is_compared_on_the_same_hosts_over_the_same_link():
    own = [over_hosts(milliseconds=(2.0,) * 3, megabits=megabits) for megabits in (10.0, 100.0)]
    library = over_hosts("amber_library", milliseconds=(3.0,) * 3, megabits=10.0)
    [row] = convenience(summaries.launches(named(*own, library)), None).to_dict("records")
    assert (row["first"], row["second"]) == ("amber_ring, 2 hosts, 10 Mbit/s", "amber_library, 2 hosts, 10 Mbit/s")


def test_the_median_over_rounds_has_an_interval_from_six_on():
    assert pairs.median(pd.Series([3.0, 1.0, 2.0, 6.0, 4.0, 5.0])) == (3.5, 1.0, 6.0, 6)
    found, low, high, count = pairs.median(pd.Series([1.0, 2.0, 4.0]))
    assert (found, count) == (2.0, 3)
    assert math.isnan(low)
    assert math.isnan(high)


def test_without_rounds_no_median_exists():
    found, low, high, count = pairs.median(pd.Series(dtype=float))
    assert count == 0
    assert all(math.isnan(value) for value in (found, low, high))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (Interval(6, 0.7, 0.5, 0.9), "slower"),
        (Interval(6, 1.3, 1.1, 1.5), "faster"),
        (Interval(6, 1.0, 0.9, 1.1), "can't tell"),
        (Interval(6, 1.0, 0.9, 1.0), "can't tell"),
        (Interval(6, 1.0, 1.0, 1.1), "can't tell"),
        (Interval(5, 1.0, None, None), "too few rounds"),
        (None, "no shared round"),
    ],
)
def test_an_interval_lies_on_one_side_of_the_middle_or_cannot_tell(found, said):
    assert pairs.side(found, 1, ("slower", "faster")) == said


def test_the_table_has_every_change_of_one_thing():
    records = [make_record(name, 2) for name in ("amber_ring", "amber_library", "teal_amber")]
    records += [make_record("amber_threads", 2, rank_factors=(1.0,)), varied("amber_ring", 2, compiled=True)]
    found = pairs.table(summaries.launches(named(*records)), None)
    assert found[["change", "first", "second"]].to_numpy().tolist() == [
        ["options", "amber_ring", "amber_ring, compiled"],
        ["library's loop", "amber_ring", "amber_library"],
        ["one process", "amber_ring", "amber_threads"],
    ]
    assert [*pairs.table(summaries.launches({}), None)] == [*COLUMNS["factors"]]


def test_hosts_are_no_option():
    records = named(make_record("amber_ring", 2), over_hosts(), over_hosts(megabits=10.0))
    assert pairs.table(summaries.launches(records), None).empty
