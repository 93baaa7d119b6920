"""Who is called faster than whom, on made-up launches of which it is known what the tests say."""

import numpy as np
import pandas as pd
import pytest

from common.statistics import paired
from tests.reports.families import CERTIFIED, judged, launches, pairs_of, placed, ranked


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
