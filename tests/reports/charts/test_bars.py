"""The figures of rates, speed-ups and steps: vectors, the same for the same input, with all that must be on them."""

import math
from xml.etree.ElementTree import fromstring

import pytest

from common.records.training import Record
from reports.charts import bars, style
from reports.charts.curves import Line, Plot, curves
from reports.words import scaling
from tests.reports.materials import material_of
from tests.reports.pieces import marks_of, words
from tests.reports.records import make_record, varied


def scaled(*records: Record, height: float = 195.0) -> bytes:
    material = material_of(*records)
    return curves(scaling.plot(material.cells, material.launches, height), style.styles(material.colors))


def test_worlds_with_more_threads_than_cores_are_marked_and_on_grey():
    known = [make_record("amber_single"), *(make_record("amber_ring", workers) for workers in (1, 2))]
    grey = style.GROUND.encode()
    assert grey not in scaled(*known)
    svg = scaled(*known, make_record("amber_ring", 4))
    # Face and edge in each strategy's panels, speed-up and efficiency.
    assert svg.count(grey) == 2 * 2 * 2
    daggers = {word for word in words(svg) if "\N{DAGGER}" in word}
    assert daggers == {"4\N{DAGGER}", "\N{DAGGER} more threads than cores"}


def test_each_strategy_has_a_panel_with_the_others_and_the_ideal_and_the_figure_is_as_high_as_asked():
    records = [make_record("amber_single"), *(make_record("amber_ring", workers) for workers in (1, 2, 4))]
    low, high = (scaled(*records, height=millimetres) for millimetres in (100.0, 160.0))
    assert {"the others", "ideal: N times its base", "1", "2"} <= {*words(low)}
    panels = {f"{name}: {what}" for name in ("amber_single", "amber_ring") for what in ("speed-up", "efficiency")}
    assert {mark.panel for mark in marks_of(low)} == panels
    points = [float(fromstring(svg).get("height").removesuffix("pt")) for svg in (low, high)]
    assert points[1] - points[0] == pytest.approx(60 / 25.4 * 72, rel=0.02)


def test_strategies_stand_in_the_order_of_their_speed_where_there_is_a_core_for_each_worker():
    slow = [make_record("amber_ring", count, (time,) * 3) for count, time in ((1, 1.0), (2, 4.0), (4, 1.0))]
    fast = [make_record("amber_library", count, (time,) * 3) for count, time in ((1, 2.0), (2, 3.0), (4, 9.0))]
    alone = make_record("amber_single", 1, (0.5,) * 3)
    names = scaling.in_order_of_speed(material_of(*slow, *fast, alone).cells)
    assert names == ["amber_library", "amber_ring", "amber_single"]


def test_a_name_that_looks_like_code_is_text_and_nothing_else():
    names = ["');alert('x", "<script>&\"'", "$\\frac{1}{0}$", "bell\x07 and\nline"]
    records = [make_record(name, workers, base="amber_single") for name in names for workers in (1, 2)]
    svg = scaled(make_record("amber_single"), *records)
    for name in names:
        shown = name.replace("\x07", "\N{REPLACEMENT CHARACTER}").replace("\n", " ")
        assert shown in " ".join(words(svg))
        assert shown in {"\n".join(mark.keys) for mark in marks_of(svg)}


def test_without_ticks_both_axes_are_linear_and_panels_share_them():
    panels = ("2 hosts", "4 hosts")
    courses = [
        Line(measure="step", panel=panel, x=[0, 5, 10], values=[0, most / 2, most], key=panel, tips=[{"launch": panel}])
        for panel, most in zip(panels, (100, 1000), strict=True)
    ]
    marks = marks_of(curves(Plot(lines=courses, x_label="s"), {}))
    assert [(mark.panel, mark.tip) for mark in marks] == [(f"{panel}: step", {"launch": panel}) for panel in panels]
    assert [pytest.approx(point, abs=2) for point in marks[1].points] == [(0, 0), (5, 500), (10, 1000)]
    # The first panel of a row alone has numbers, by which all are read.
    assert [pytest.approx(point, abs=2) for point in marks[0].points] == [(0, 0), (5, 50), (10, 100)]


def test_each_number_of_workers_has_a_panel_and_oversubscribed_bars_are_marked_and_pale():
    records = [make_record("amber_single", 1, (2.0,) * 3), varied("amber_ring", 2, (3.0,) * 3, exchange=False)]
    records += [make_record("amber_ring", workers, (4.0,) * 3) for workers in (1, 2, 4)]
    table = material_of(*records).parts.assign(ceiling_seconds=1e-3)
    found = words(bars.steps(table))
    assert {"ideal", "computing", "exchange", "measured step", "4.00 ms"} <= {*found}
    assert "the framework's own products and transport" in found
    assert [word for word in found if "worker" in word] == ["1 worker", "2 workers", "4 workers"]
    assert [word for word in found if "amber" in word] == ["amber_ring", "amber_ring", "amber_ring†"]
    few = bars.steps(table[table["workers"] < 4].assign(ceiling_seconds=math.nan))
    assert "the framework's own products and transport" not in words(few)
    assert [b"opacity:0.4" in svg for svg in (bars.steps(table), few)] == [True, False]


def test_a_bar_that_is_far_longer_than_the_others_is_cut_and_says_so():
    records = [make_record("amber_single", 1, (2.0,) * 3)]
    records += [make_record(f"amber_{place}", 2, (time,) * 3) for place, time in enumerate((4.0, 4.0, 8.0, 80.0))]
    found = words(bars.steps(material_of(*records).parts.assign(ceiling_seconds=math.nan)))
    assert [word for word in found if word.startswith("8")][-2:] == ["8.00 ms", "80.0 ms »"]
