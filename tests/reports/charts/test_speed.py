"""The figures of speed: vectors, the same for the same input, and with all that must be on them."""

import re
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from xml.etree import ElementTree

import pytest

from common.records.training import Record
from reports.charts import layout, speed
from reports.tables import summaries
from tests.reports.charts.read_marks import read
from tests.reports.drawings import SVG, height_of, looks_of, words
from tests.reports.records import make_record, named, varied

COMMAS = re.compile(r"\d+,\d{3}")
USUAL = (
    make_record("amber_single"),
    *[make_record("amber_ring", 1), *(make_record("amber_ring", 2, (time,) * 3) for time in (2.0, 2.2, 2.4))],
    *[make_record("amber_ring", 4), make_record("cobalt_replicas", 2), varied("cobalt_replicas", 2, compiled=True)],
)
"""A base, several launches of a cell, more threads than cores, and a label."""
PLAIN = (
    *(make_record("amber_ring", workers) for workers in (1, 2)),
    make_record("cobalt_servers", 2, oversubscribed=True),
)
"""No base, and more threads than cores of one strategy alone."""


scaling = speed.scaling


def texts(svg: str) -> list[ElementTree.Element]:
    return [*ElementTree.fromstring(svg).iter(f"{SVG}text")]


def drawn(*records: Record, draw: Callable[..., bytes] = speed.headline) -> str:
    launches = summaries.launches(named(*records))
    looks = looks_of(launches["strategy"].tolist())
    return draw(summaries.cells(launches), launches, looks).decode()


@cache
def usual() -> str:
    return drawn(*USUAL)


@cache
def plain() -> str:
    return drawn(*PLAIN)


def test_the_headline_is_svg_without_pixels_and_the_same_for_the_same_records():
    assert "<image" not in usual()
    assert drawn(*PLAIN) == plain()


def test_a_world_is_marked_where_every_strategy_has_more_threads_than_cores():
    with_dagger = [word for word in words(drawn(*USUAL, draw=scaling)) if "\N{DAGGER}" in word]
    assert {*with_dagger} == {"4\N{DAGGER}", "\N{DAGGER} more threads than cores"}
    assert "4\N{DAGGER}" not in words(drawn(*PLAIN[:2], make_record("amber_single"), draw=scaling))


def test_each_strategy_has_a_panel_of_its_speed_up_and_of_its_efficiency_with_the_others_and_the_ideal():
    svg = drawn(*USUAL[:-2], draw=scaling)
    assert {"amber_single", "amber_ring", "the others", "ideal: N times its base", "1", "2"} <= {*words(svg)}
    panels = {mark.panel for mark in read(svg.encode())}
    assert panels == {
        f"{name}: {what}" for name in ("amber_single", "amber_ring") for what in ("speed-up", "efficiency")
    }


def test_efficiency_begins_at_zero_and_a_figure_is_as_high_as_it_is_asked_to_be():
    low, high = (drawn(*USUAL[:-2], draw=partial(scaling, height=height)) for height in (100.0, 160.0))
    assert height_of(high) - height_of(low) == pytest.approx(60 / 25.4 * 72, rel=0.02)
    assert words(low).count("0") == 1


def test_the_headline_has_an_ideal_line_for_each_measured_base_and_a_legend_of_one_line():
    assert "4 times amber_single" in words(usual())
    assert not [word for word in words(plain()) if "times" in word]
    legend = [element.get("y") for element in texts(usual()) if "times" in element.text or "one launch" in element.text]
    assert len({*legend}) == 1


def test_the_headline_has_a_bar_from_zero_for_each_world_and_the_number_of_every_median():
    found = words(usual())
    assert {"amber_single, 1 worker", "amber_ring, 2 workers", "amber_ring"} <= set(found)
    # 64 rows in 2 ms are 32,000, 128 in 2 or 2.2 are 64,000 or 58,182, and 256 in 2 are 128,000.
    numbers = [word.rstrip("\N{DAGGER}") for word in found]
    assert Counter(filter(COMMAS.fullmatch, numbers)) == {"32,000": 2, "64,000": 2, "58,182": 1, "128,000": 1}
    assert "0" in found


def test_strategies_stand_in_the_order_of_their_speed_where_there_is_a_core_for_each_worker():
    slow = [make_record("amber_ring", count, (time,) * 3) for count, time in ((1, 1.0), (2, 4.0), (4, 1.0))]
    fast = [make_record("amber_library", count, (time,) * 3) for count, time in ((1, 2.0), (2, 3.0), (4, 9.0))]
    alone = make_record("amber_single", 1, (0.5,) * 3)
    cells = summaries.cells(summaries.launches(named(*slow, *fast, alone)))
    assert speed.in_order_of_speed(cells) == ["amber_library", "amber_ring", "amber_single"]


def test_oversubscribed_launches_and_medians_have_a_dagger_where_the_mouse_is():
    marks = read(usual().encode())
    assert {mark.tip["workers"] for mark in marks if "workers" in mark.tip} == {"1", "2", "4†"}


def test_of_very_many_launches_the_slowest_the_fastest_and_some_between_are_drawn(monkeypatch):
    monkeypatch.setattr(layout, "MOST_POINTS", 5)
    records = [make_record("amber_ring", 1, (2.0 + index / 100,) * 3) for index in range(20)]
    svg = drawn(*records)
    said = [mark.tip["ms per step"] for mark in read(svg.encode()) if "launch (n = 1)" in mark.tip]
    assert len(said) == 5
    assert {"2.00", "2.19"} <= {*said}
    assert "Drawn are 5 launches of each bar, from the slowest to the fastest." in words(svg)
    assert "Drawn" not in " ".join(words(drawn(*records[:5])))


def test_a_name_that_looks_like_code_is_text_and_nothing_else():
    names = ["');alert('x", "<script>&\"'", "$\\frac{1}{0}$", "bell\x07 and\nline"]
    records = [make_record(name, workers, base="amber_single") for name in names for workers in (1, 2)]
    svg = drawn(make_record("amber_single"), *records, draw=scaling)
    for name in names:
        shown = name.replace("\x07", "\N{REPLACEMENT CHARACTER}")
        assert shown in "\n".join(words(svg))
        assert shown.replace("\n", " ") in {"\n".join(mark.keys) for mark in read(svg.encode())}


def test_with_many_strategies_the_headline_grows_and_names_every_one():
    names = [f"amber_{index:02d}" for index in range(16)]
    svg = drawn(*map(make_record, names))
    assert set(names) <= set(words(svg))
    assert height_of(svg) > height_of(plain())
