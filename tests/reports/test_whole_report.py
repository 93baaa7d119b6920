"""Every word and number of a report, held to a text that was read once and is kept beside this test.

Whoever changes a report on purpose writes the text anew, and reads what differs:
`.nox/tools/bin/python -m tests.reports.test_whole_report`.
"""

import math
import tempfile
from itertools import pairwise
from pathlib import Path

import pytest

from reports import document
from reports.blocks import Drawings
from reports.tables.material import Material
from tests.reports.charts.read_marks import number_in, read
from tests.reports.whole_report import as_text, results_in

KEPT = Path(__file__).with_suffix(".txt")


def report_in(folder: Path) -> tuple[dict[str, object], Drawings]:
    return document.compose(Material(results_in(folder)))


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> tuple[dict[str, object], Drawings]:
    return report_in(tmp_path_factory.mktemp("report"))


def test_the_report_says_what_was_read_once(report):
    assert as_text(*report).splitlines() == KEPT.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(("figure", "x"), [("curves", "workers"), ("sweep", "Mbit/s")])
def test_marks_over_x_stand_where_their_tips_say(report, figure, x):
    names = {"ms per step": ["ms per step"], "samples per second": ["samples/s, median", "samples/s"]}
    drawn = [draw() for file, draw in report[1].items() if file.removeprefix("narrow-").startswith(figure)]
    marks = [mark for svg in drawn for mark in read(svg) if x in mark.tip]
    assert len(marks) > 20
    for mark in marks:
        [value] = [mark.tip[name] for name in names[mark.panel.rpartition(": ")[2]] if name in mark.tip]
        place = (number_in(mark.tip[x]), number_in(value))
        # A little aside of its place, and an interval has its ends around it.
        xs, values = zip(*mark.points, strict=True)
        assert all(math.isclose(each, place[0], rel_tol=0.07) for each in xs), mark
        assert 0.99 * min(values) <= place[1] <= 1.01 * max(values), mark


def test_every_chapter_has_something_to_say():
    text = KEPT.read_text(encoding="utf-8")
    chapters = [title for title, _ in document.CHAPTERS if title]
    assert [title for title in chapters if f"[heading]\n{title}\n" not in text] == []


def test_sections_stand_where_a_reader_looks_for_them():
    lines = KEPT.read_text(encoding="utf-8").splitlines()
    ordered = [
        *["Where the time goes", "Why not N times", "When does synchronous SGD pay?", "The exchange replayed alone"],
        *["The frameworks' ceilings", "Hosts", "The same maths", "Tables", "How this was measured"],
    ]
    titles = [title for kind, title in pairwise(lines) if kind == "[heading]"]
    assert [title for title in titles if title in ordered] == ordered


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        KEPT.write_text(as_text(*report_in(Path(temporary))), encoding="utf-8")
