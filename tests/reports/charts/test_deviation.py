"""The figures of losses and their oracle, and of the rounds of pairs."""

import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from reports.charts import deviation, layout
from reports.tables import certificate
from reports.tables.results import Results
from tests.reports.charts.read_marks import read
from tests.reports.drawings import height_of, looks_of, words
from tests.reports.records import SMOOTH, make_record, named


def test_long_loss_curves_are_thinned_and_keep_their_largest_deviation(tmp_path, monkeypatch):
    losses = [*make_record(task=SMOOTH).losses]
    losses[31] *= 1.01
    comparisons = certificate.compare(Results(tmp_path, named(make_record(task=SMOOTH, losses=losses)), None))
    full = deviation.losses(comparisons, looks_of(["amber_ring"]))
    monkeypatch.setattr(deviation, "_STEPS_OF_A_LINE", (1, 20))
    thinned = deviation.losses(comparisons, looks_of(["amber_ring"]))
    assert [len(mark.points) for mark in read(full)] == [60, 60]
    assert [len(mark.points) for mark in read(thinned)] == [20, 20]
    [(step, worst)] = [point for point in read(thinned)[1].points if point[1] > 1e-3]
    assert (step, worst) == (pytest.approx(30, abs=0.1), pytest.approx(0.01, rel=1e-2))
    said = "Drawn is one loss of every 3 steps, and their largest deviation."
    assert said in words(thinned.decode())
    assert said not in words(full.decode())


def test_a_loss_that_is_no_number_leaves_a_gap(tmp_path):
    losses = [*make_record(task=SMOOTH).losses]
    losses[5] = None
    comparisons = certificate.compare(Results(tmp_path, named(make_record(task=SMOOTH, losses=losses)), None))
    [loss, _] = read(deviation.losses(comparisons, looks_of(["amber_ring"])))
    assert len(loss.points) == 59


def test_of_very_many_pairs_those_with_the_farthest_rounds_are_drawn(monkeypatch):
    monkeypatch.setattr(layout, "MOST_POINTS", 12)
    flat = [0.0] * 5
    svg = residuals(quiet=[0.01, *flat], wild=[0.5, *flat], loud=[0.2, *flat])
    assert {mark.tip["pair"] for mark in read(svg.encode())} == {"loud over base", "wild over base"}
    assert "Drawn are the 2 of 3 pairs that leave their mean farthest." in words(svg)


def test_the_names_of_many_loss_curves_stand_in_a_legend_below_them(tmp_path):
    names = [f"amber_{index:02d}" for index in range(12)]
    records = named(*(make_record(name, task=SMOOTH) for name in names))
    comparisons = certificate.compare(Results(tmp_path, records, None))
    svg = deviation.losses(comparisons, looks_of(names)).decode()
    assert set(names) <= set(words(svg))
    # In one column they would take 47 mm, beside 47 of the panels.
    assert height_of(svg) < 70 / 25.4 * 72


def residuals(**logs: list[float]) -> str:
    rows = [{"strategy": name, "other": "base", "rounds": [*range(1, 7)], "logs": each} for name, each in logs.items()]
    return deviation.residuals(pd.DataFrame(rows)).decode()


def test_the_residuals_are_drawn_for_every_round_and_the_farthest_named():
    quiet = {f"quiet_{index}": [index, index, index + 0.01, index, index - 0.01, index] for index in range(5)}
    wild = {f"wild_{index}": [0.0, 0.0, 0.3, 0.0, -0.1 * index, 0.0] for index in range(3)}
    svg = residuals(**wild, **quiet)
    assert {word for word in words(svg) if word.endswith(" over base")} == {f"{name} over base" for name in wild}
    assert {"round", "ratio of a pair over its mean, %"} <= set(words(svg))
    assert residuals(**wild, **quiet) == svg
    assert Counter(mark.tip["pair"] for mark in read(svg.encode())) == {
        f"{name} over base": 6 for name in (*wild, *quiet)
    }


def test_residuals_are_off_the_mean_of_their_own_pair():
    near, far = (read(residuals(one=[mean, mean + 0.1, *[mean] * 4]).encode()) for mean in (0.0, 2.0))
    assert [mark.points for mark in near] == [mark.points for mark in far]
    rounds = enumerate(100 * np.expm1(np.array([-0.1, 0.5, -0.1, -0.1, -0.1, -0.1]) / 6), start=1)
    assert [mark.points for mark in near] == [[pytest.approx(point, abs=0.05)] for point in rounds]
    assert [mark.tip["off its mean"] for mark in near] == [mark.tip["off its mean"] for mark in far]
    assert far[0].tip["mean ratio"] == f"{math.exp(2 + 0.1 / 6):.3f}"
