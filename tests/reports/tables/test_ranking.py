"""Who is called faster than whom, on made-up launches of which it is known what the tests say."""

import numpy as np
import pandas as pd
import pytest

from common.statistics import paired
from tests.reports.families import CERTIFIED, judged, launches, pairs_of, placed, planned, ranked


def test_a_difference_within_rounds_is_found_although_rounds_differ_by_much_more():
    table = launches({"slow": 1.08, "fast": 1.0})
    [row] = judged(table).comparisons.to_dict("records")
    assert (row["strategy"], row["other"], row["verdict"], row["n"]) == ("fast", "slow", "faster", 6)
    assert row["low"] < 1.08 < row["high"]
    medians = table.groupby("strategy")["seconds"].agg(["min", "max"])
    assert medians["min"].max() < medians["max"].min()


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


def test_a_comparison_takes_the_rounds_that_have_both():
    table = launches({"a": 1.0, "b": 1.2, "c": 1.5}, n=9)
    table = table[(table["strategy"] != "a") | (table["round"] > 2)]
    table = table[(table["strategy"] != "b") | (table["round"] < 9)]
    found = judged(table).comparisons.set_index(["strategy", "other"])
    assert found["n"].to_dict() == {("a", "b"): 6, ("a", "c"): 7, ("b", "c"): 8}
    assert found.loc[("a", "b"), "rounds"] == [3, 4, 5, 6, 7, 8]


def test_without_a_plan_launches_are_paired_by_their_places_and_with_one_its_launches_alone_count():
    table = launches({"a": 1.0, "b": 1.2}, n=8)
    late = table[(table["strategy"] == "a") | (table["round"] > 1)]
    [alone] = ranked(late, None, CERTIFIED).comparisons.to_dict("records")
    assert (alone["n"], alone["rounds"]) == (7, [1, 2, 3, 4, 5, 6, 7])
    [row] = ranked(table, planned(late), CERTIFIED).comparisons.to_dict("records")
    assert (row["n"], row["rounds"]) == (7, [2, 3, 4, 5, 6, 7, 8])


def test_each_regime_and_number_of_workers_is_a_family_of_its_own():
    two, four = launches({"a": 1.0, "b": 1.02}), launches({"a": 1.0, "b": 1.02, "c": 2.0}, workers=4)
    strong = launches({"a": 1.0, "d": 1.02}).assign(regime="strong")
    found = ranked(pd.concat([two, four, strong]), None, CERTIFIED).comparisons
    assert found.groupby(["regime", "workers"]).size().to_dict() == {("strong", 2): 1, ("weak", 2): 1, ("weak", 4): 3}
    alone, among = (judged(table).comparisons["high"].iloc[0] for table in (two, four))
    assert found[found["regime"] == "weak"]["high"].iloc[[0, 1]].tolist() == pytest.approx([alone, among])
    assert alone < among


def test_launches_without_exchange_take_no_part():
    table = launches({"a": 1.0, "b": 1.2})
    silent = launches({"a": 0.5, "b": 0.5}).assign(exchange=False)
    assert (
        judged(pd.concat([table, silent])).comparisons["ratio"].tolist() == judged(table).comparisons["ratio"].tolist()
    )


def test_what_the_certificate_does_not_know_is_a_mistake():
    with pytest.raises(KeyError):
        ranked(launches({"a": 1.0, "b": 1.2}), None, {("a", 2): ""})


def test_each_placement_is_a_family_of_its_own_and_nobody_is_compared_across():
    table = pd.concat([launches({"a": 1.0, "b": 1.2}), placed({"a": 3.0, "b": 2.0}, 2, 10), placed({"a": 1.0}, 2)])
    found = ranked(table, None, CERTIFIED)
    assert pairs_of(found) == [("a", "b"), ("b, 2 hosts, 10 Mbit/s", "a, 2 hosts, 10 Mbit/s")]
    assert found.comparisons["placement"].tolist() == ["", "2 hosts, 10 Mbit/s"]
    assert found.comparisons["hosts"].tolist() == [1, 2]
