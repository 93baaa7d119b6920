"""common/records/collective_times.py: the lines that a launch leaves while it runs, up to the one that was torn."""

import pytest

from common.records.collective_times import Cell, append_line, cells_path, read_lines
from common.records.files import to_json
from common.records.trace import Message

CELL = Cell(
    collective="step",
    size_bytes=8,
    status="ok",
    entered_seconds=[[0.0], [0.25]],
    left_seconds=[[0.5], [0.75]],
    messages=[Message(collective="broadcast", size_bytes=8)],
)


def test_lines_are_kept_one_by_one_in_their_order_without_numbers_that_json_lacks(tmp_path):
    path = cells_path(tmp_path / "record.json")
    lines = [{"started_at": "now"}, CELL, {"reason": "two\nlines, and \u2028 too"}]
    for line in lines:
        append_line(path, line)
    assert read_lines(path) == [lines[0], to_json(CELL), lines[2]]
    assert path.parent == tmp_path
    assert path != tmp_path / "record.json"
    with pytest.raises(ValueError):
        append_line(tmp_path / "lines", {"elapsed_seconds": float("inf")})
    assert read_lines(tmp_path / "lines") == []
    assert read_lines(tmp_path / "none") == []


def test_a_last_line_that_was_torn_is_left_out_wherever_it_was_torn(tmp_path):
    path = tmp_path / "lines"
    append_line(path, {"collective": "gather"})
    before = path.read_bytes()
    append_line(path, {"reason": "it isn't \u00fcber"})
    whole = path.read_bytes()
    for length in range(len(before), len(whole)):
        path.write_bytes(whole[:length])
        assert read_lines(path) == [{"collective": "gather"}]
    path.write_bytes(whole)
    assert len(read_lines(path)) == 2


def test_a_line_that_cannot_be_written_is_refused_with_the_file_and_a_remedy(tmp_path, refusal):
    path = tmp_path / "none" / "lines"
    text = refusal(lambda: append_line(path, {}))
    assert text.startswith(f"{path} can't be written to (No such file or directory):")
