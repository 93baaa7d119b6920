"""The messages of a strategy's step: a file of them, and how long at least one was under way."""

import json

from hypothesis import given
from hypothesis import strategies as st

from common.records.files import to_json, write_record
from common.records.trace import Message, Trace, read_trace, seconds_under_way, trace_path

TRACE = Trace(
    strategy="mine",
    workers=2,
    source="my profiler",
    library="gloo",
    data_type="float32",
    messages=[Message(collective="all_reduce", size_bytes=8), Message(collective="broadcast", size_bytes=4)],
    under_way_seconds=[0.1, 0.2],
)

SPANS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 20)).map(lambda each: (float(each[0]), float(sum(each)))), max_size=8
)


def test_what_is_written_is_read_unless_it_has_no_messages(tmp_path, refusal):
    path = trace_path(tmp_path / "run-0.02_megabytes.json")
    write_record(path, TRACE)
    assert path.name == "run-0.02_megabytes.json.messages"
    assert read_trace(path) == TRACE
    path.write_text(json.dumps(to_json(TRACE) | {"messages": []}))
    assert "has no messages" in refusal(lambda: read_trace(path))


@given(SPANS)
def test_the_time_in_which_a_message_is_under_way_counts_once(spans):
    covered = {moment for begin, end in spans for moment in range(int(begin), int(end))}
    assert seconds_under_way(spans) == len(covered)
