"""How many times as long a step takes with one thing changed, against factors worked out by hand."""

import pandas as pd
import pytest

from common.declarations.strategy import CONVENIENCE_OF
from common.records.training import Record
from reports.tables import factors, summaries
from reports.tables.columns import COLUMNS
from tests.changes import changed
from tests.reports.records import MadeUpOptions, make_record, named, over_hosts, varied


def table(*records: Record, plan: pd.DataFrame | None = None) -> pd.DataFrame:
    return factors.table(summaries.launches(named(*records)), plan)


def rows(*records: Record, plan: pd.DataFrame | None = None) -> list[dict]:
    return table(*records, plan=plan).to_dict("records")


def planned(records: list[Record], rounds: list[int]) -> pd.DataFrame:
    return pd.DataFrame({"launch": [*named(*records)][: len(rounds)], "repetition": rounds})


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
    assert [*table(*records)["change"]] == changes
    plan = planned(records, [1, 1, 1, 1])
    assert [*table(*records, plan=plan)["change"]] == changes
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
    assert [*table(*records)] == [*COLUMNS["factors"]]


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
    assert table(*records)[["change", "first", "second"]].to_numpy().tolist() == [
        ["options", "amber_ring", "amber_ring, compiled"],
        ["library's loop", "amber_ring", "amber_library"],
        ["one process", "amber_ring", "amber_threads"],
    ]
