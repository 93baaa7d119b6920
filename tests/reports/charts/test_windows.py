"""The figure of a strategy's page: a bar of windows for each configuration, and the median of each launch."""

import pickle
import xml.etree.ElementTree as ElementTree
from functools import partial
from pathlib import Path

import pytest

from reports.charts import style
from reports.tables.material import gather
from reports.tables.results import Results
from reports.words import strategy_pages
from tests.reports.charts.read_marks import read
from tests.reports.drawings import words
from tests.reports.records import make_record, named, varied


def drawing(*records) -> partial:
    """The figure of the first page on these records, not drawn yet."""
    results = Results(Path(), named(*records), None)
    material = gather(results)
    blocks = strategy_pages.section(material)
    return next(block["draw"] for block in blocks if block["kind"] == "figure")


BASE = make_record("amber_single", 1, (1.5,) * 3)
RING = [make_record("amber_ring", count, (2.0, 2.2, 2.4)) for count in (1, 2)]
ALONE = varied("amber_ring", 2, (1.7,) * 3, exchange=False)


@pytest.fixture(scope="module")
def drawn() -> str:
    return drawing(BASE, *RING, ALONE)().decode()


def test_rows_have_their_names_their_number_of_launches_and_a_legend(drawn):
    assert ElementTree.fromstring(drawn).tag.endswith("svg")
    assert "<image" not in drawn
    assert {"1 worker", "2 workers", "with exchange", "without exchange", "5 % to 95 %"} <= set(words(drawn))
    # Of three bars of windows one launch each.
    assert words(drawn).count("n = 1") == 3


def test_the_same_input_gives_the_same_bytes_in_any_process(drawn):
    draw = drawing(BASE, *RING, ALONE)
    assert draw().decode() == drawn
    assert pickle.loads(pickle.dumps(draw))().decode() == drawn


def test_windows_that_took_far_longer_than_most_are_cut_and_marked():
    assert "n = 1 »" in words(drawing(make_record("amber_ring", 2, (2.0,) * 30 + (80.0,)))().decode())
    assert "n = 1" in words(drawing(make_record("amber_ring", 2, (2.0,) * 30 + (3.0,)))().decode())


def test_a_bar_alone_stands_in_the_middle_of_its_row_and_is_not_told_from_others():
    svg = drawing(make_record("amber_ring", 4, (2.0,) * 30 + (3.0,), label="slow"))()
    [bar, *_] = [mark for mark in read(svg) if "all" in mark.tip]
    assert (bar.tip["of"], bar.tip["windows (n)"]) == ("4 workers\N{DAGGER}, slow", "31")
    assert {"with exchange", "without exchange"} & set(words(svg.decode())) == set()


def test_oversubscribed_rows_are_marked_and_texts_are_never_read_as_formulas():
    words_of = words(drawing(make_record("amber_ring", 4, label="$\\frac{1}{0}$ & <b>"), RING[1])().decode())
    assert "4 workers†" in words_of
    assert any("frac" in text for text in words_of)


def test_a_narrow_figure_has_the_same_marks(drawn):
    narrow = drawing(BASE, *RING, ALONE)(width=style.NARROW)
    assert [mark.tip for mark in read(narrow)] == [mark.tip for mark in read(drawn.encode())]
