"""The figures of speed: vectors, the same for the same input, and with all that must be on them."""

import xml.etree.ElementTree as ElementTree
from functools import partial

import pytest

from reports.charts import layout, speed, style
from reports.tables import summaries
from tests.reports.charts.read_marks import read
from tests.reports.drawings import SVG, height_of, looks_of, words
from tests.reports.records import make_record, named, varied


def drawn(*records, kind=speed.headline) -> str:
    launches = summaries.launches(named(*records))
    looks = looks_of(launches["strategy"].tolist())
    return kind(summaries.cells(launches), launches, looks).decode()


@pytest.mark.parametrize("kind", [speed.headline, speed.curves])
def test_a_figure_is_svg_without_pixels_and_names_its_strategies(kind):
    svg = drawn(make_record("amber_single"), make_record("amber_ring", 2), kind=kind)
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert "<image" not in svg
    assert {"amber_single", "amber_ring"} <= set(words(svg))


@pytest.mark.parametrize("kind", [speed.headline, speed.curves])
def test_the_same_input_gives_the_same_bytes(kind):
    records = (make_record("amber_single"), make_record("amber_ring", 2))
    assert drawn(*records, kind=kind) == drawn(*records, kind=kind)


def test_the_headline_has_an_ideal_line_for_each_measured_base():
    svg = drawn(make_record("amber_single"), make_record("amber_ring", 2))
    assert "ideal: N times amber_single" in words(svg)
    assert "ideal: N times amber_single" not in words(drawn(make_record("amber_ring", 1), make_record("amber_ring", 2)))


@pytest.mark.parametrize(("kind", "mark"), [(speed.headline, "4 workers †"), (speed.curves, "4†")])
def test_more_threads_than_cores_are_marked_on_the_plot(kind, mark):
    records = [make_record("amber_ring", workers) for workers in (1, 2, 4)]
    assert mark in words(drawn(*records, kind=kind))
    assert not [word for word in words(drawn(*records[:2], kind=kind)) if "†" in word]


def test_the_headline_has_a_panel_for_each_number_of_workers_and_the_number_of_every_median():
    svg = drawn(make_record("amber_single"), make_record("amber_ring", 1), make_record("amber_ring", 2, (4.0,) * 3))
    assert {"1 worker", "2 workers"} <= set(words(svg))
    # 64 rows in 2 ms, and 128 in 4.
    assert words(svg).count("32,000") == 3


def test_strategies_stand_in_the_order_of_their_speed_where_there_is_a_core_for_each_worker():
    slow = [make_record("amber_ring", count, (time,) * 3) for count, time in ((1, 1.0), (2, 4.0), (4, 1.0))]
    fast = [make_record("amber_library", count, (time,) * 3) for count, time in ((1, 2.0), (2, 3.0), (4, 9.0))]
    alone = make_record("amber_single", 1, (0.5,) * 3)
    cells = summaries.cells(summaries.launches(named(*slow, *fast, alone)))
    assert speed.in_order_of_speed(cells) == ["amber_library", "amber_ring", "amber_single"]


def test_a_ground_is_shaded_only_where_every_strategy_has_more_threads_than_cores():
    servers = make_record("cobalt_servers", 2, oversubscribed=True)
    svg = drawn(make_record("amber_ring", 1), make_record("amber_ring", 2), servers)
    assert not [word for word in words(svg) if "†" in word]


@pytest.mark.parametrize("kind", [speed.headline, speed.curves])
def test_every_launch_is_a_mark_in_every_panel(kind):
    records = [make_record("amber_ring", workers, (2 + index / 9,) * 3) for index in range(9) for workers in (1, 2)]
    marks = read(drawn(make_record("amber_single"), *records, kind=kind).encode())
    launches = [mark.tip["launch (n = 1)"] for mark in marks if "launch (n = 1)" in mark.tip]
    assert len(launches) == 19
    assert len({*launches}) == 19


def test_medians_say_their_numbers():
    records = [make_record("amber_ring", 2, (time,) * 3) for time in (2.0, 2.2, 2.4)]
    marks = read(drawn(make_record("amber_single"), *records, kind=speed.headline).encode())
    [median] = [mark.tip for mark in marks if "samples/s, median" in mark.tip and mark.keys == ["amber_ring"]]
    # 128 rows in 2.2 ms are 58,182 samples/s; amber_single's 64 in 2 ms are 32,000.
    assert (median["samples/s, median"], median["ms per step"], median["launches (n)"]) == ("58,182", "2.20", "3")
    assert (median["speed-up"], median["efficiency"]) == ("1.82", "91 %")
    assert median["95 % interval"] == "none: too few launches"


def test_oversubscribed_launches_and_medians_have_a_dagger_where_the_mouse_is():
    svg = drawn(*(make_record("amber_ring", workers) for workers in (1, 2, 4)))
    assert {mark.tip["workers"] for mark in read(svg.encode()) if "workers" in mark.tip} == {"1", "2", "4†"}


def test_of_very_many_launches_the_slowest_the_fastest_and_some_between_are_drawn(monkeypatch):
    monkeypatch.setattr(layout, "MOST_POINTS", 5)
    records = [make_record("amber_ring", 1, (2.0 + index / 100,) * 3) for index in range(20)]
    svg = drawn(*records, kind=speed.headline)
    said = [mark.tip["ms per step"] for mark in read(svg.encode()) if "launch (n = 1)" in mark.tip]
    assert len(said) == 5
    assert {"2.00", "2.19"} <= {*said}
    note = "Drawn are 5 launches of each strategy and number of workers, from the slowest to the fastest."
    assert note in words(svg)
    assert note not in words(drawn(*records[:5], kind=speed.headline))


@pytest.mark.parametrize("name", ["');alert('x", "<script>&\"'", "$\\frac{1}{0}$", "bell\x07 and\nline"])
def test_a_name_that_looks_like_code_is_text_and_nothing_else(name):
    svg = drawn(make_record(name), make_record(name, 2), kind=speed.curves)
    shown = name.replace("\x07", "\N{REPLACEMENT CHARACTER}")
    assert shown in "\n".join(words(svg))
    assert shown.replace("\n", " ") in {"\n".join(mark.keys) for mark in read(svg.encode())}


def test_with_many_strategies_the_headline_grows_and_names_every_one():
    names = [f"amber_{index:02d}" for index in range(24)]
    svg = drawn(*(make_record(name, workers) for name in names for workers in (1, 2)))
    assert set(names) <= set(words(svg))
    assert height_of(svg) > height_of(drawn(*(make_record("amber_00", workers) for workers in (1, 2))))


@pytest.mark.parametrize(("width", "columns"), [(style.WIDTH, 4), (style.NARROW, 2)])
def test_small_panels_share_the_numbers_at_the_left_of_their_row_and_at_the_bottom_of_their_column(width, columns):
    records = [make_record(f"amber_{index:02d}", workers) for index in range(12) for workers in (1, 2)]
    root = ElementTree.fromstring(drawn(*records, kind=partial(speed.curves, width=width)))
    has_text = {name: [] for name in ("xtick", "ytick")}
    for panel in root.iter(f"{SVG}g"):
        if panel.get("aria-label"):
            for name, flags in has_text.items():
                ticks = [each for each in panel.iter(f"{SVG}g") if each.get("class") == name]
                flags.append(any([*each.iter(f"{SVG}text")] for each in ticks))
    assert has_text["ytick"] == [place % columns == 0 for place in range(12)]
    assert has_text["xtick"] == [place >= 12 - columns for place in range(12)]


def test_many_strategies_have_a_panel_each_with_the_others_in_grey():
    names = [f"amber_{index:02d}" for index in range(12)]
    records = [make_record(name, workers) for name in names for workers in (1, 2)]
    svg = drawn(make_record("amber_single"), *records, kind=speed.curves)
    assert {*names, "amber_single", "the others", "ideal: N times its base"} <= set(words(svg))
    assert svg == drawn(make_record("amber_single"), *records, kind=speed.curves)
    assert height_of(drawn(*records[:8], kind=speed.curves)) < height_of(svg)


@pytest.mark.parametrize("kind", [speed.headline, speed.curves])
def test_a_label_is_a_curve_of_its_own(kind):
    svg = drawn(make_record("cobalt_replicas", 2), varied("cobalt_replicas", 2, compiled=True), kind=kind)
    assert "cobalt_replicas" in words(svg)
    assert "cobalt_replicas, compiled" in " ".join(" ".join(words(svg)).split())
