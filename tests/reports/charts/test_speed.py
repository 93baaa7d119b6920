"""The figures of speed: vectors, the same for the same input, and with all that must be on them."""

import re
from collections import Counter
from collections.abc import Callable
from functools import cache

from common.records.training import Record
from reports.charts import layout, speed
from reports.tables import summaries
from tests.reports.charts.read_marks import read
from tests.reports.drawings import height_of, looks_of, words
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
    assert [word for word in words(usual()) if "\N{DAGGER}" in word] == ["4 workers \N{DAGGER}"]
    assert "\N{DAGGER}" not in " ".join(words(plain()))


def test_each_strategy_has_a_panel_with_the_others_and_its_ideal():
    said = words(drawn(*USUAL, draw=speed.by_workers))
    assert {"amber_single", "amber_ring", "cobalt_replicas", "cobalt_replicas, compiled"} <= {*said}
    assert {"the others", "ideal: N times its base", "samples per second", "1", "2", "4\N{DAGGER}"} <= {*said}


def test_the_headline_has_an_ideal_line_for_each_measured_base():
    assert "ideal: N times amber_single" in words(usual())
    assert not [word for word in words(plain()) if word.startswith("ideal")]


def test_the_headline_has_a_panel_for_each_number_of_workers_and_the_number_of_every_median():
    found = words(usual())
    assert {"1 worker", "2 workers"} <= set(found)
    # 64 rows in 2 ms are 32,000, 128 in 2 or 2.2 are 64,000 or 58,182, and 256 in 2 are 128,000.
    assert Counter(filter(COMMAS.fullmatch, found)) == {"32,000": 2, "64,000": 2, "58,182": 1, "128,000": 1}


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
    assert "Drawn are 5 launches of each strategy and number of workers, from the slowest to the fastest." in words(svg)
    assert "Drawn" not in " ".join(words(drawn(*records[:5])))


def test_a_name_that_looks_like_code_is_text_and_nothing_else():
    names = ["');alert('x", "<script>&\"'", "$\\frac{1}{0}$", "bell\x07 and\nline"]
    svg = drawn(*(make_record(name, workers) for name in names for workers in (1, 2)), draw=speed.by_workers)
    for name in names:
        shown = name.replace("\x07", "\N{REPLACEMENT CHARACTER}")
        assert shown in "\n".join(words(svg))
        assert shown.replace("\n", " ") in {"\n".join(mark.keys) for mark in read(svg.encode())}


def test_with_many_strategies_the_headline_grows_and_names_every_one():
    names = [f"amber_{index:02d}" for index in range(16)]
    svg = drawn(*map(make_record, names))
    assert set(names) <= set(words(svg))
    assert height_of(svg) > height_of(plain())
