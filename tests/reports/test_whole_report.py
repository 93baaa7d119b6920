"""Every word and number of a report, held to a text that was read once and is kept beside this test.

Whoever changes a report on purpose writes the text anew, and reads what differs:
`.nox/tools/bin/python -m tests.reports.test_whole_report`.
"""

import tempfile
from itertools import pairwise
from pathlib import Path

from reports import document
from reports.tables.material import Material
from tests.reports.whole_report import as_text, results_in

KEPT = Path(__file__).with_suffix(".txt")


def text_of_report(folder: Path) -> str:
    return as_text(*document.compose(Material(results_in(folder))))


def test_the_report_says_what_was_read_once(tmp_path):
    assert text_of_report(tmp_path).splitlines() == KEPT.read_text(encoding="utf-8").splitlines()


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
        KEPT.write_text(text_of_report(Path(temporary)), encoding="utf-8")
