"""The report of a session of faults: its sentence, its numbers, its figure, and what is refused."""

import pytest

from common.errors import UserError
from common.records import recovery_rows
from common.records.files import read_records
from common.records.training import Record
from reports import faults
from reports.charts import recovery
from tests.common.records.recoveries import write_session
from tests.reports.drawings import words


@pytest.fixture
def rows(tmp_path):
    return recovery_rows.rows(recovery_rows.suffered(tmp_path, read_records(write_session(tmp_path), Record)))


def test_the_first_sentence_says_who_lost_least_how_and_whether_the_maths_is_right(rows):
    content, _ = faults.compose(["2026-01-01T00:00:00"], rows, {})
    [sentence] = [each["text"] for each in content["blocks"] if each["kind"] == "headline"]
    assert sentence.startswith(
        "With rank 1 killed at step 160, amber_ring kept most by the medians, started again from its checkpoint: 50 % "
        "of the steps per second of an undisturbed launch."
    )


def test_the_table_has_a_row_for_each_way_what_lost_least_first(rows):
    content, _ = faults.compose([], rows, {"processor": "amber"})
    table, told = [each for each in content["blocks"] if each["kind"] == "table"]
    assert told["rows"] == [["processor", "amber"]]
    shown = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    assert [(row["then"], row["of undisturbed"], row["n"]) for row in shown] == [
        ("started again", "0.50", "2"),
        ("ended for good", "0.00", "1"),
    ]


def test_the_figure_has_a_panel_for_each_row_with_each_process_and_the_fault(rows):
    drawn = recovery.steps_over_time(rows).decode()
    assert [each for each in words(drawn) if "killed" in each] == ["amber_ring: rank 1 killed at step 160"] * 2
    # Of the launch that was started again four processes, of the other one two.
    assert drawn.count("rank 0") >= 3
    assert drawn == recovery.steps_over_time(rows).decode()


def test_where_nothing_went_on_that_is_the_answer(rows):
    lost = [row for row in rows if set(row.became) == {recovery_rows.ENDED}]
    content, _ = faults.compose([], lost, {})
    assert [each["text"] for each in content["blocks"] if each["kind"] == "headline"] == [
        "No launch went on after its fault."
    ]


def test_pdf_and_page_are_written_from_the_folder(tmp_path):
    faults.write_report(write_session(tmp_path), tmp_path / "out" / "faults.pdf")
    assert (tmp_path / "out" / "faults.pdf").read_bytes().startswith(b"%PDF")
    assert "rank 1 killed at step 160" in (tmp_path / "out" / "faults.html").read_text()


def test_a_folder_without_any_fault_is_refused(tmp_path):
    with pytest.raises(UserError, match="has no launch that suffered a fault"):
        faults.write_report(tmp_path, tmp_path / "faults.pdf")
