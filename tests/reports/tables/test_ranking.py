"""Who is called faster than whom, and by what factors one change does it, on launches of which both are known."""

import numpy as np
import pandas as pd
import pytest

from common.declarations.strategy import CONVENIENCE_OF
from common.records.training import Record
from common.statistics import paired
from reports.tables import ranking, summaries
from reports.tables.columns import COLUMNS
from tests.changes import changed
from tests.reports.families import CERTIFIED, judged, launches, pairs_of, placed, ranked
from tests.reports.records import MadeUpOptions, make_record, named, over_hosts, varied
from tests.reports.steps import plan_of


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
    plan = plan_of(records, [1, 1, 1, 1])
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
