"""The figure of values over x: panels that share their axes, and what tells series, launches and lines apart."""

import math
from collections.abc import Mapping

import pandas as pd
import pytest

from reports.charts import style
from reports.charts.curves import Line, Plot, curves
from tests.reports.charts.read_marks import read
from tests.reports.pieces import looks_of, words

PANELS, SERIES = ("2 hosts", "4 hosts"), ("amber_ring", "amber_single")
TICKS = {10.0: "10", 100.0: "100"}


def plot(panels: Mapping[str, tuple[str, ...]], oversubscribed: bool = False) -> Plot:
    """A plot with these series in each panel: at each x a launch at the median."""
    places = [("time, ms", panel, name, x) for panel, own in panels.items() for name in own for x in TICKS]
    marks = pd.DataFrame(places, columns=["measure", "panel", "series", "x"])
    marks = marks.assign(value=[3.0 + place for place in range(len(marks))], oversubscribed=oversubscribed)
    medians = marks.assign(n=1, low=math.nan, high=math.nan)
    return Plot(launches=marks.assign(launch="one"), medians=medians, x_label="hosts", ticks=TICKS)


def drawn(shown: Plot) -> str:
    return curves(shown, looks_of([*shown.medians["series"].unique()])).decode()


TOGETHER = plot(dict.fromkeys(PANELS, SERIES))


def test_a_series_is_picked_out_by_the_title_of_its_own_panel_or_else_by_the_legend():
    alone, together = drawn(plot({name: (name,) for name in SERIES})), drawn(TOGETHER)
    assert [svg.count(f'data-pick="{name}"') for svg in (alone, together) for name in SERIES] == [1] * 4
    assert {"2 hosts", "4 hosts", "time, ms", "hosts", "10", "100"} <= {*words(together)}


def test_more_threads_than_cores_are_explained_and_their_medians_hollow():
    usual, oversubscribed = drawn(TOGETHER), drawn(plot({"2 hosts": SERIES}, oversubscribed=True))
    assert {"\N{DAGGER} more threads than cores", "amber_ring \N{DAGGER}"} <= {*words(oversubscribed)}
    assert "\N{DAGGER}" not in " ".join(words(usual))
    assert oversubscribed.count(f"fill:{style.PAPER}") > usual.count(f"fill:{style.PAPER}")


def test_without_ticks_both_axes_are_linear_and_panels_share_them():
    courses = [
        Line(measure="step", panel=panel, x=[0, 5, 10], values=[0, most / 2, most], key=panel, tips=[{"launch": panel}])
        for panel, most in zip(PANELS, (100, 1000), strict=True)
    ]
    marks = read(curves(Plot(lines=courses, x_label="s"), {}))
    assert [(mark.panel, mark.tip) for mark in marks] == [(f"{panel}: step", {"launch": panel}) for panel in PANELS]
    assert [pytest.approx(point, abs=2) for point in marks[1].points] == [(0, 0), (5, 500), (10, 1000)]
    # The first panel of a row alone has numbers, by which all are read.
    assert [pytest.approx(point, abs=2) for point in marks[0].points] == [(0, 0), (5, 50), (10, 100)]
