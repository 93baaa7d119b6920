"""The figure of values over x: panels that share their axes; its marks are held by `test_marks.py`."""

import pytest

from reports.charts.curves import Line, Plot, curves
from tests.reports.charts.read_marks import read

PANELS = ("2 hosts", "4 hosts")


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
