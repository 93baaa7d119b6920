"""The figure of a strategy's page: its four panels, and what stands in the place of one that has nothing to show."""

import pickle
import xml.etree.ElementTree as ElementTree
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs

from reports.charts import layout, strategy
from reports.tables import summaries
from reports.tables.material import gather
from reports.tables.results import Results
from reports.words import strategy_pages
from tests.changes import changed
from tests.reports.charts.read_marks import read
from tests.reports.drawings import height_of, words
from tests.reports.records import make_record, named, varied


def drawing(*records) -> partial:
    """The figure of the first page on these records, not drawn yet."""
    results = Results(Path(), named(*records), None)
    material = gather(results)
    blocks = strategy_pages.section(material, results, summaries.regimes(material.launches))
    return next(block["draw"] for block in blocks if block["kind"] == "figure")


BASE = make_record("amber_single", 1, (1.5,) * 3)
RING = [make_record("amber_ring", count, (2.0, 2.2, 2.4)) for count in (1, 2)]
ALONE = varied("amber_ring", 2, (1.7,) * 3, exchange=False)


@pytest.fixture(scope="module")
def drawn() -> str:
    return drawing(BASE, *RING, ALONE)().decode()


def test_all_panels_have_their_titles_rows_and_numbers(drawn):
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
    assert "<image" not in drawn
    titles = {"windows, ms per step", "the step divided, ms", "first step after, s", "processor use, 2 workers"}
    assert titles | {"1 worker", "2 workers", "with exchange", "without exchange", "cores busy"} <= set(words(drawn))
    # Of three bars of windows one launch each; both steps; both first steps.
    assert words(drawn).count("n = 1") == 3
    assert words(drawn).count("2.20") == 2
    assert words(drawn).count("1.50") == 2


def test_the_same_input_gives_the_same_bytes_in_any_process(drawn):
    draw = drawing(BASE, *RING, ALONE)
    assert draw().decode() == drawn
    assert pickle.loads(pickle.dumps(draw))().decode() == drawn


def test_a_panel_without_anything_to_show_says_why_and_has_no_frame():
    silent = {"startup_seconds": None, "startup_processor_seconds": None, "base": None}
    windows = [structs.replace(window, started_seconds=None, own_seconds=None) for window in RING[0].windows]
    alone, all_there = (
        drawing(make_record("amber_ring", **fields))().decode()
        for fields in (silent | {"windows": windows}, {"base": None})
    )
    said = " ".join(words(alone))
    assert "it distributes nothing, so its step is the ideal one." in said
    assert "the records don't tell when a window started" in said
    assert "Not told." in said
    assert [title for title in words(alone) if "," in title and "processor use" in title] == []
    assert alone.count("aria-label=") == 1 < all_there.count("aria-label=")


def test_windows_that_took_far_longer_than_most_are_cut_and_marked():
    assert "n = 1 »" in words(drawing(make_record("amber_ring", 2, (2.0,) * 30 + (80.0,)))().decode())
    assert "n = 1" in words(drawing(make_record("amber_ring", 2, (2.0,) * 30 + (3.0,)))().decode())


def test_every_rank_and_every_part_of_the_start_up_is_drawn():
    few, many = (drawing(make_record("amber_ring", 2, (2.0,) * count)) for count in (3, 7))
    uses = [draw.keywords["processors"] for draw in (few, many)]
    assert [(use["part"] != "").sum() for use in uses] == [3, 3]
    assert [use["rank"].nunique() for use in uses] == [2, 2]
    assert [(use["part"] == "").sum() for use in uses] == [6, 14]
    assert set(uses[0].loc[use_of_windows(uses[0]), "cores"].round(6)) == {0.9}
    # Each window of each rank is a level line of its own.
    ranks = [[mark for mark in read(draw()) if "least and most" in mark.tip] for draw in (few, many)]
    assert [[len(mark.points) for mark in marks] for marks in ranks] == [[6, 6], [14, 14]]


def test_of_very_many_windows_means_over_their_time_are_drawn(monkeypatch):
    monkeypatch.setattr(layout, "MOST_POINTS", 2)
    record = make_record("amber_ring", 1, (1.0, 3.0, 2.0))
    windows = [
        structs.replace(window, own_seconds=share * window.seconds)
        for window, share in zip(record.windows, (0.2, 1.0, 0.5), strict=True)
    ]
    svg = drawing(changed(record, windows=windows))()
    [rank] = [mark for mark in read(svg) if "least and most" in mark.tip]
    # 1 and 3 ms a step, of which 0.2 and 3 were computed; ten steps each.
    assert [cores for _, cores in rank.points] == pytest.approx([0.8, 0.8, 0.5, 0.5], rel=1e-2)
    assert "(means of every 2 windows of a rank)" in " ".join(words(svg.decode()))


def test_windows_that_start_before_the_first_step_is_done_are_on_one_axis_without_a_break():
    whole = make_record("amber_ring", 2)
    windows = [structs.replace(window, started_seconds=window.started_seconds - 1) for window in whole.windows]
    early = changed(whole, windows=windows)
    dashes = [drawing(record)().count(b"stroke-dasharray") for record in (whole, early)]
    assert dashes[0] > dashes[1]


def test_a_bar_alone_stands_in_the_middle_of_its_row_and_is_not_told_from_others():
    svg = drawing(make_record("amber_ring", 4, (2.0,) * 30 + (3.0,), label="slow"))()
    [bar, *_] = [mark for mark in read(svg) if "all" in mark.tip]
    assert (bar.tip["of"], bar.tip["windows (n)"]) == ("4 workers\N{DAGGER}, slow", "31")
    assert "windows" not in bar.tip
    assert "with exchange" not in words(svg.decode())


def use_of_windows(table):
    return table["part"] == ""


def test_oversubscribed_rows_are_marked_and_texts_are_never_read_as_formulas():
    words_of = words(drawing(make_record("amber_ring", 4, label="$\\frac{1}{0}$ & <b>"), RING[1])().decode())
    assert "4 workers†" in words_of
    assert any("frac" in text for text in words_of)


def test_a_figure_is_as_high_as_it_is_asked_to_be():
    draw = drawing(BASE, *RING)
    for height in strategy.heights(2, processors=True):
        svg = partial(draw.func, *draw.args, **draw.keywords | {"height": height})().decode()
        assert height_of(svg) == pytest.approx(height / 25.4 * 72, abs=0.01)
