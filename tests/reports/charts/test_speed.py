"""The figures of speed: vectors, the same for the same input, and with all that must be on them."""

import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from functools import cache, partial

import pytest

from reports.charts import layout, speed, style
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


def drawn(*records, kind=speed.headline) -> str:
    launches = summaries.launches(named(*records))
    looks = looks_of(launches["strategy"].tolist())
    return kind(summaries.cells(launches), launches, looks).decode()


@cache
def usual(kind) -> str:
    return drawn(*USUAL, kind=kind)


@cache
def plain(kind) -> str:
    return drawn(*PLAIN, kind=kind)


@cache
def many(count, width) -> str:
    """Curves of so many strategies, more than there are panels in a row."""
    names = [f"amber_{index:02d}" for index in range(count - 1)]
    records = [make_record(name, workers) for name in names for workers in (1, 2)]
    return drawn(make_record("amber_single"), *records, kind=partial(speed.curves, width=width))


each_kind = pytest.mark.parametrize("kind", [speed.headline, speed.curves])


@each_kind
def test_a_figure_is_svg_without_pixels_and_names_its_strategies(kind):
    assert ElementTree.fromstring(usual(kind)).tag.endswith("svg")
    assert "<image" not in usual(kind)
    assert {"amber_single", "amber_ring"} <= set(words(usual(kind)))


@each_kind
def test_the_same_input_gives_the_same_bytes(kind):
    assert drawn(*PLAIN, kind=kind) == plain(kind)


def test_the_headline_has_an_ideal_line_for_each_measured_base():
    assert "ideal: N times amber_single" in words(usual(speed.headline))
    assert not [word for word in words(plain(speed.headline)) if word.startswith("ideal")]


@pytest.mark.parametrize(("kind", "mark"), [(speed.headline, "4 workers †"), (speed.curves, "4†")])
def test_more_threads_than_cores_are_marked_on_the_plot(kind, mark):
    assert {word for word in words(usual(kind)) if "†" in word} == {mark}


def test_the_headline_has_a_panel_for_each_number_of_workers_and_the_number_of_every_median():
    found = words(usual(speed.headline))
    assert {"1 worker", "2 workers"} <= set(found)
    # 64 rows in 2 ms are 32,000, 128 in 2 or 2.2 are 64,000 or 58,182, and 256 in 2 are 128,000.
    assert Counter(filter(COMMAS.fullmatch, found)) == {"32,000": 2, "64,000": 2, "58,182": 1, "128,000": 1}


def test_strategies_stand_in_the_order_of_their_speed_where_there_is_a_core_for_each_worker():
    slow = [make_record("amber_ring", count, (time,) * 3) for count, time in ((1, 1.0), (2, 4.0), (4, 1.0))]
    fast = [make_record("amber_library", count, (time,) * 3) for count, time in ((1, 2.0), (2, 3.0), (4, 9.0))]
    alone = make_record("amber_single", 1, (0.5,) * 3)
    cells = summaries.cells(summaries.launches(named(*slow, *fast, alone)))
    assert speed.in_order_of_speed(cells) == ["amber_library", "amber_ring", "amber_single"]


@each_kind
def test_a_ground_is_shaded_only_where_every_strategy_has_more_threads_than_cores(kind):
    assert not [word for word in words(plain(kind)) if "†" in word]


@each_kind
def test_every_launch_is_a_mark_in_every_panel(kind):
    marks = read(usual(kind).encode())
    launches = [mark.tip["launch (n = 1)"] for mark in marks if "launch (n = 1)" in mark.tip]
    assert sorted(launches) == sorted(named(*USUAL))


def test_medians_say_their_numbers():
    marks = [mark for mark in read(usual(speed.headline).encode()) if "samples/s, median" in mark.tip]
    [median] = [mark.tip for mark in marks if (mark.keys, mark.tip["workers"]) == (["amber_ring"], "2")]
    # 128 rows in 2.2 ms are 58,182 samples/s; amber_single's 64 in 2 ms are 32,000.
    assert (median["samples/s, median"], median["ms per step"], median["launches (n)"]) == ("58,182", "2.20", "3")
    assert (median["speed-up"], median["efficiency"]) == ("1.82", "91 %")
    assert median["95 % interval"] == "none: too few launches"


def test_oversubscribed_launches_and_medians_have_a_dagger_where_the_mouse_is():
    marks = read(usual(speed.headline).encode())
    assert {mark.tip["workers"] for mark in marks if "workers" in mark.tip} == {"1", "2", "4†"}


def test_of_very_many_launches_the_slowest_the_fastest_and_some_between_are_drawn(monkeypatch):
    monkeypatch.setattr(layout, "MOST_POINTS", 5)
    records = [make_record("amber_ring", 1, (2.0 + index / 100,) * 3) for index in range(20)]
    svg = drawn(*records, kind=speed.headline)
    said = [mark.tip["ms per step"] for mark in read(svg.encode()) if "launch (n = 1)" in mark.tip]
    assert len(said) == 5
    assert {"2.00", "2.19"} <= {*said}
    assert "Drawn are 5 launches of each strategy and number of workers, from the slowest to the fastest." in words(svg)
    assert layout.thinned(summaries.launches(named(*records[:5])), ["strategy"], "strategy")[1] == ""
    assert not [word for word in words(plain(speed.headline)) if word.startswith("Drawn")]


def test_a_name_that_looks_like_code_is_text_and_nothing_else():
    names = ["');alert('x", "<script>&\"'", "$\\frac{1}{0}$", "bell\x07 and\nline"]
    svg = drawn(*(make_record(name, workers) for name in names for workers in (1, 2)), kind=speed.curves)
    for name in names:
        shown = name.replace("\x07", "\N{REPLACEMENT CHARACTER}")
        assert shown in "\n".join(words(svg))
        assert shown.replace("\n", " ") in {"\n".join(mark.keys) for mark in read(svg.encode())}


def test_with_many_strategies_the_headline_grows_and_names_every_one():
    names = [f"amber_{index:02d}" for index in range(16)]
    svg = drawn(*map(make_record, names))
    assert set(names) <= set(words(svg))
    assert height_of(svg) > height_of(plain(speed.headline))


@pytest.mark.parametrize(("count", "width", "columns"), [(7, style.WIDTH, 4), (3, style.NARROW, 2)])
def test_small_panels_share_the_numbers_at_the_left_of_their_row_and_at_the_bottom_of_their_column(
    count, width, columns
):
    has_text = {name: [] for name in ("xtick", "ytick")}
    for panel in ElementTree.fromstring(many(count, width)).iter(f"{SVG}g"):
        if panel.get("aria-label"):
            for name, flags in has_text.items():
                ticks = [each for each in panel.iter(f"{SVG}g") if each.get("class") == name]
                flags.append(any([*each.iter(f"{SVG}text")] for each in ticks))
    assert has_text["ytick"] == [place % columns == 0 for place in range(count)]
    assert has_text["xtick"] == [place >= count - columns for place in range(count)]


def test_many_strategies_have_a_panel_each_with_the_others_in_grey():
    svg = many(7, style.WIDTH)
    names = {f"amber_{index:02d}" for index in range(6)}
    assert {*names, "amber_single", "the others", "ideal: N times its base"} <= set(words(svg))
    assert height_of(plain(speed.curves)) < height_of(svg)


def test_a_name_that_is_wider_than_its_panel_is_shortened_above_it():
    name = "amber_and_" + "very_" * 5 + "long"
    assert "amber_and_ve…ery_very_long" in words(drawn(make_record(name), make_record(name, 2), kind=speed.curves))


@each_kind
def test_a_label_is_a_curve_of_its_own(kind):
    assert "cobalt_replicas" in words(usual(kind))
    assert "cobalt_replicas, compiled" in " ".join(" ".join(words(usual(kind))).split())
