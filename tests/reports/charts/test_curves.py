"""The figure of values over x: panels that share their axes, and what tells series, launches and lines apart."""

import math
from collections.abc import Mapping
from dataclasses import replace
from xml.etree import ElementTree

import pandas as pd
import pytest

from reports.charts import style
from reports.charts.curves import Line, Plot, curves
from tests.reports.charts.read_marks import read
from tests.reports.pieces import SVG, looks_of, words

PANELS, SERIES = ("2 hosts", "4 hosts"), ("amber_ring", "amber_single")
TICKS = {10.0: "10", 100.0: "100"}


def plot(panels: Mapping[str, tuple[str, ...]], oversubscribed: bool = False) -> Plot:
    """A plot with these series in each panel: at each x a launch at the median."""
    places = [("time, ms", panel, name, x) for panel, own in panels.items() for name in own for x in TICKS]
    marks = pd.DataFrame(places, columns=["measure", "panel", "series", "x"])
    marks = marks.assign(value=[3.0 + place for place in range(len(marks))], oversubscribed=oversubscribed)
    medians = marks.assign(n=1, low=math.nan, high=math.nan)
    return Plot(launches=marks.assign(launch="one"), medians=medians, x_label="hosts", ticks=TICKS)


def small_panels(count: int, width: float) -> str:
    names = [f"amber_{index:02d}" for index in range(count)]
    return drawn(plot({name: (name,) for name in names}), width)


def drawn(shown: Plot, width: float = style.WIDTH) -> str:
    return curves(shown, looks_of([*shown.medians["series"].unique()]), width).decode()


TOGETHER = plot(dict.fromkeys(PANELS, SERIES))


@pytest.mark.parametrize(("count", "width", "columns"), [(7, style.WIDTH, 4), (3, style.NARROW, 2)])
def test_panels_share_the_numbers_at_the_left_of_their_row_and_at_the_bottom_of_their_column(count, width, columns):
    has_text = {name: [] for name in ("xtick", "ytick")}
    for panel in ElementTree.fromstring(small_panels(count, width)).iter(f"{SVG}g"):
        if panel.get("aria-label"):
            for name, flags in has_text.items():
                ticks = [each for each in panel.iter(f"{SVG}g") if each.get("class") == name]
                flags.append(any([*each.iter(f"{SVG}text")] for each in ticks))
    assert has_text["ytick"] == [place % columns == 0 for place in range(count)]
    assert has_text["xtick"] == [place >= count - columns for place in range(count)]


def test_a_series_is_picked_out_by_the_title_of_its_own_panel_or_else_by_the_legend():
    alone, together = small_panels(2, style.WIDTH), drawn(TOGETHER)
    assert [alone.count(f'data-pick="amber_0{place}"') for place in (0, 1)] == [1, 1]
    assert [together.count(f'data-pick="{name}"') for name in SERIES] == [1, 1]
    assert {"2 hosts", "4 hosts", "time, ms", "hosts", "10", "100"} <= {*words(together)}


def test_a_name_that_is_wider_than_its_panel_is_shortened_above_it():
    names = [f"amber_and_{'very_' * 5}long_{index}" for index in range(5)]
    assert "amber_and_v…very_long_0" in words(drawn(plot({name: (name,) for name in names})))


def test_more_threads_than_cores_are_explained_and_their_medians_hollow():
    usual, oversubscribed = drawn(TOGETHER), drawn(plot({"2 hosts": SERIES}, oversubscribed=True))
    assert {"\N{DAGGER} more threads than cores", "amber_ring \N{DAGGER}"} <= {*words(oversubscribed)}
    assert "\N{DAGGER}" not in " ".join(words(usual))
    assert oversubscribed.count(f"fill:{style.PAPER}") > usual.count(f"fill:{style.PAPER}")


def test_intervals_stand_in_the_legend_where_launches_gave_them():
    medians = TOGETHER.medians.assign(low=1.0, high=9.0)
    for n, has_intervals in ((6, True), (0, False)):
        said = words(drawn(replace(TOGETHER, medians=medians.assign(n=n))))
        assert ("95 % interval of the median" in said) == has_intervals


def test_equal_reference_lines_stand_in_the_legend_once_and_in_ink_where_their_colors_differ():
    lines = [
        Line(measure="time, ms", panel=panel, x=[*TICKS], values=[1, 2], color=color, label=label)
        for panel, other in zip(PANELS, ("#0072b2", "#d55e00"), strict=True)
        for label, color in (("a bound", "#009e73"), ("the fits", other))
    ]
    svg = drawn(replace(TOGETHER, lines=lines))
    assert [words(svg).count(label) for label in ("a bound", "the fits")] == [1, 1]
    # Twice in the panels.
    assert [svg.count(f"stroke:{color}") for color in ("#009e73", "#0072b2", "#d55e00")] == [3, 1, 1]


def test_without_ticks_both_axes_are_linear_and_a_course_is_a_line_with_its_tip():
    course = Line(measure="step", x=[0, 5, 10], values=[0, 500, 1000], key="amber_ring", tips=[{"launch": "one"}])
    [mark] = read(curves(Plot(lines=[course], x_label="s"), {}))
    assert (mark.panel, mark.tip) == ("step", {"launch": "one"})
    assert [pytest.approx(point, abs=2) for point in mark.points] == [(0, 0), (5, 500), (10, 1000)]


def test_panels_without_ticks_share_their_axes_since_the_first_of_a_row_alone_has_numbers():
    courses = [
        Line(measure="step", panel=panel, x=[0, 5], values=[0, most])
        for panel, most in zip(PANELS, (10, 900), strict=True)
    ]
    assert {"200", "800"} <= {*words(curves(Plot(lines=courses, x_label="s"), {}).decode())}
