"""The report of a session of faults: its sentence, its numbers, its figure, and what is refused."""

import dataclasses

import pytest
from msgspec import structs

from common.errors import UserError
from common.records import recovery_rows
from common.records.files import read_records
from common.records.recovery import Recovery
from common.records.training import Record, Window
from reports import faults
from reports.charts import recovery
from tests.common.records.recoveries import write_session
from tests.reports.drawings import words


@pytest.fixture
def rows(tmp_path):
    return recovery_rows.rows(recovery_rows.suffered(tmp_path, read_records(write_session(tmp_path), Record)))


def test_the_first_sentence_says_who_lost_least_how_and_whether_the_maths_is_right(rows):
    content, _ = faults.compose(["2026-01-01T00:00:00"], rows, [], {})
    [sentence] = [each["text"] for each in content["blocks"] if each["kind"] == "headline"]
    assert sentence.startswith(
        "With rank 1 killed at step 160, amber_ring kept most by the medians, started again from its checkpoint: 50 % "
        "of the steps per second of an undisturbed launch."
    )


def test_the_table_has_a_row_for_each_way_what_lost_least_first(rows):
    content, _ = faults.compose([], rows, [], {"processor": "amber"})
    table, told = [each for each in content["blocks"] if each["kind"] == "table"]
    assert told["rows"] == [["processor", "amber"]]
    shown = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    assert [(row["then"], row["of undisturbed"], row["n"]) for row in shown] == [
        ("started again", "0.50", "2"),
        ("ended for good", "0.00", "1"),
    ]


def test_what_a_checkpoint_costs_is_how_much_longer_training_stands_still_for_it(tmp_path):
    folder = write_session(tmp_path)
    [plain, *_] = read_records(folder, Record).values()
    # Windows of 10 steps take 20 ms, 1 ms apart, and 5 ms where a checkpoint comes before.
    windows, end = [], 2.0
    for step in range(20, 120, 10):
        start = end + (0.005 if step % 50 == 0 else 0.001)
        windows.append(Window(rank=0, step=step, steps=10, seconds=0.02, started_seconds=start))
        end = start + 0.02
    launch = recovery_rows.Suffered("plain", structs.replace(plain, windows=windows), Recovery(), "follows")
    disturbed = dataclasses.replace(launch, account=Recovery(fault="kill:rank=1,step=160"))
    [row] = recovery_rows.saving([launch, disturbed])
    assert (row.strategy, row.n) == ("amber_ring", 1)
    assert row.seconds.median == pytest.approx(0.004)
    assert row.share.median == pytest.approx(2 * 0.004 / (10 * 0.02 + 7 * 0.001 + 2 * 0.005))
    content, _ = faults.compose(
        [], recovery_rows.rows(recovery_rows.suffered(folder, read_records(folder, Record))), [row], {}
    )
    [_, costs, _] = [each for each in content["blocks"] if each["kind"] == "table"]
    assert costs["rows"] == [["amber_ring", "4.00", "3.7 %", "1"]]
    assert recovery_rows.saving([dataclasses.replace(launch, record=structs.replace(plain, windows=[]))]) == []


def test_the_figure_has_a_panel_for_each_row_with_each_process_and_the_fault(rows):
    drawn = recovery.steps_over_time(rows).decode()
    assert [each for each in words(drawn) if "killed" in each] == ["amber_ring: rank 1 killed at step 160"] * 2
    # Of the launch that was started again four processes, of the other one two.
    assert drawn.count("rank 0") >= 3
    assert drawn == recovery.steps_over_time(rows).decode()


def test_where_nothing_went_on_that_is_the_answer(rows):
    lost = [row for row in rows if set(row.became) == {recovery_rows.ENDED}]
    content, _ = faults.compose([], lost, [], {})
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
