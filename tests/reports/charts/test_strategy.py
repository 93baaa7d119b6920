"""The figure of a strategy's page: its four panels, and what stands in the place of one that has nothing to show."""

import pickle
import xml.etree.ElementTree as ElementTree
from functools import partial
from pathlib import Path

import pytest
from msgspec import structs

from reports import strategy_pages, summaries
from reports.charts import strategy
from reports.material import gather
from reports.results import Results
from tests.reports.drawings import height_of, words
from tests.reports.records import make_record, named, varied


def drawing(*records) -> partial:
    """The figure of the first page on these records, not drawn yet."""
    results = Results(Path(), named(*records), None)
    material = gather(results)
    strategy_pages.section(material, results, summaries.regimes(material.launches))
    return next(draw for name, draw in material.drawings.items() if name.startswith("strategy"))


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
    assert titles | {"1 worker", "2 workers", "with exchange", "without", "cores busy"} <= set(words(drawn))
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
    assert alone.count('id="axes_') == 2 < all_there.count('id="axes_')


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
    # Each window of each rank is a line of its own.
    assert many().count(b"<path") > few().count(b"<path")


def use_of_windows(table):
    return table["part"] == ""


def test_crowded_rows_are_marked_and_texts_are_never_read_as_formulas():
    words_of = words(drawing(make_record("amber_ring", 4, label="$\\frac{1}{0}$ & <b>"), RING[1])().decode())
    assert "4 workers†" in words_of
    assert any("frac" in text for text in words_of)


def test_a_figure_is_as_high_as_it_is_asked_to_be():
    draw = drawing(BASE, *RING)
    for height in strategy.heights(2, processors=True):
        svg = partial(draw.func, *draw.args, **draw.keywords | {"height": height})().decode()
        assert height_of(svg) == pytest.approx(height / 25.4 * 72)
