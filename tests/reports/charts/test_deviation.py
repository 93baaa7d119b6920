"""The figures of losses and their oracle, and of the rounds of pairs, with names that stand apart."""

from itertools import pairwise

import pandas as pd
import pytest

from reports import certificate
from reports.charts import deviation
from reports.results import Results
from tests.reports.drawings import height_of, looks_of, words
from tests.reports.records import make_record, named


def test_the_loss_curves_lie_on_the_oracles(tmp_path):
    comparisons = certificate.compare(Results(tmp_path, named(make_record(), make_record("amber_single")), None))
    svg = deviation.losses(comparisons, looks_of(["amber_ring", "amber_single"])).decode()
    assert {"oracle (NumPy, float64)", "amber_ring", "amber_single", "tolerated"} <= set(words(svg))


def test_the_names_of_many_loss_curves_stand_in_a_legend_below_them(tmp_path):
    names = [f"amber_{index:02d}" for index in range(24)]
    comparisons = certificate.compare(Results(tmp_path, named(*map(make_record, names)), None))
    svg = deviation.losses(comparisons, looks_of(names)).decode()
    assert set(names) <= set(words(svg))
    assert height_of(svg) < 100 / 25.4 * 72


def residuals(**logs: list[float]) -> str:
    rows = [{"strategy": name, "other": "base", "rounds": [*range(1, 7)], "logs": each} for name, each in logs.items()]
    return deviation.residuals(pd.DataFrame(rows)).decode()


def test_the_residuals_are_drawn_for_every_round_and_the_farthest_named():
    quiet = {f"quiet_{index}": [index, index, index + 0.01, index, index - 0.01, index] for index in range(5)}
    wild = {f"wild_{index}": [0.0, 0.0, 0.3, 0.0, -0.1 * index, 0.0] for index in range(3)}
    svg = residuals(**wild, **quiet)
    assert {word for word in words(svg) if word.endswith(" over")} == {f"{name} over" for name in wild}
    assert {"round", "ratio of a pair over its mean"} <= set(words(svg))
    assert residuals(**wild, **quiet) == svg
    assert svg.count("<use") - residuals(**wild).count("<use") == 5 * 6


def test_residuals_are_off_the_mean_of_their_own_pair():
    assert residuals(one=[0.0, 0.1, 0.0, 0.0, 0.0, 0.0]) == residuals(one=[2.0, 2.1, 2.0, 2.0, 2.0, 2.0])


def test_twenty_labels_stand_apart_and_inside():
    crowded = sorted([0.5] * 10 + [0.51] * 5 + [0.99] * 5)
    placed = deviation._spread(crowded, [1] * 20)
    assert all(upper - lower > 0.0479 for lower, upper in pairwise(placed))
    assert min(placed) >= 0
    assert max(placed) <= 1


def test_labels_that_are_apart_stay_where_they_are():
    assert deviation._spread([0.1, 0.5, 0.9], [1, 1, 1]) == pytest.approx([0.1, 0.5, 0.9])


def test_a_label_of_two_lines_gets_the_room_of_two():
    placed = deviation._spread([0.5, 0.5, 0.5], [1, 2, 1])
    assert placed[1] - placed[0] == pytest.approx(1.5 * 0.048)
    assert placed[2] - placed[1] == pytest.approx(1.5 * 0.048)
