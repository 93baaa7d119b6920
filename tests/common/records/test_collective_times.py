"""common/records/collective_times.py: the lines that a launch leaves while it runs, up to the one that was torn."""

import pytest

from common.records.collective_times import append_line, cells_path, read_lines
from common.records.files import to_json
from common.records.trace import Message
from tests.common.laboratory.collective_records import cell


def test_lines_are_kept_one_by_one_in_their_order_without_numbers_that_json_lacks(tmp_path, refusal):
    path = cells_path(tmp_path / "record.json")
    assert (path.parent, read_lines(path)) == (tmp_path, [])
    step = cell(messages=[Message(collective="broadcast", size_bytes=8)])
    lines = [{"started_at": "now"}, step, {"reason": "two\nlines, and \u2028 too"}]
    for line in lines:
        append_line(path, line)
    with pytest.raises(ValueError):
        append_line(path, {"elapsed_seconds": float("inf")})
    assert read_lines(path) == [lines[0], to_json(step), lines[2]]
    path = tmp_path / "none" / "lines"
    text = refusal(lambda: append_line(path, {}))
    assert text.startswith(f"{path} can't be written to (No such file or directory):")


def test_a_last_line_that_was_torn_is_left_out_wherever_it_was_torn(tmp_path):
    path = tmp_path / "lines"
    append_line(path, {"collective": "gather"})
    first = path.stat().st_size
    append_line(path, {"reason": "it isn't \u00fcber"})
    whole = path.read_bytes()
    for length in range(first, len(whole) + 1):
        path.write_bytes(whole[:length])
        assert len(read_lines(path)) == 1 + (length == len(whole))
