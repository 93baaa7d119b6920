"""common/records/collectives.py: what is written is read, and what is damaged is refused with file and remedy."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.contract.collectives import Collective
from common.declarations.sweep import Sweep
from common.records.collectives import (
    SCHEMA_VERSION,
    Cell,
    CollectivesRecord,
    append_line,
    cells_path,
    read_lines,
    read_record,
    read_records,
    write_record,
)

SECONDS = st.floats(0, 1e6)
RANKS_AND_CALLS = st.lists(st.lists(SECONDS, max_size=3), max_size=3)


def record(**changes):
    values = {
        "library": "numpy_threads",
        "title": "threads that add arrays",
        "family": "NumPy",
        "colors": ["#111111", "#555555"],
        "status": "ok",
        "sweep": {"data_type": "float32", "sizes": ["8"], "record": None},
        "workers": 2,
        "started_at": "2026-01-01T00:00:00.000+00:00",
        "cells": [
            Cell(
                collective="all_reduce",
                size_bytes=8,
                status="ok",
                entered_seconds=[[0.0], [0.25]],
                left_seconds=[[0.5], [0.75]],
                counted_calls=3,
                sent_bytes=100.5,
                processor_seconds=0.125,
                formula_bytes=16.0,
                algorithm="ring",
                formula="2 (N - 1) S",
                source="a paper",
            ),
            Cell(collective="gather", size_bytes=8, status="unsupported", reason="It has no gather."),
        ],
    }
    return CollectivesRecord(**values | changes)


def changed(path, **changes):
    """Write a record with other values of these fields, whatever they are."""
    path.write_text(json.dumps(dataclasses.asdict(record()) | changes))


def test_a_record_that_was_written_is_read_as_it_was(tmp_path):
    path = tmp_path / "a folder" / "record.json"
    facts = {"library": "2.0", "transport": "tcp"}
    hosts = [{"name": "one", "clock_offset_seconds": -3.5, "cores": 4}]
    for written in (record(), record(facts=facts, hosts=hosts, reason="It ended.", status="failed", cells=[])):
        write_record(path, written)
        assert read_record(path) == written


@given(RANKS_AND_CALLS, st.none() | SECONDS, st.sampled_from(["ok", "failed"]), st.text(max_size=20))
def test_all_that_is_measured_is_read_as_it_was_written(tmp_path_factory, moments, sent_bytes, status, reason):
    path = tmp_path_factory.getbasetemp() / "any-record.json"
    cell = Cell(
        collective="broadcast",
        size_bytes=8,
        status=status,
        reason=reason,
        entered_seconds=moments,
        left_seconds=moments,
        sent_bytes=sent_bytes,
    )
    written = record(cells=[cell], timing_seconds=1e-7, reason=reason)
    write_record(path, written)
    assert read_record(path) == written


def test_the_fields_of_a_sweep_are_kept_as_json_has_them(tmp_path):
    sweep = Sweep(collectives=(Collective.ALL_REDUCE,), sizes=("8", "4K"))
    write_record(tmp_path / "record.json", record(sweep=dataclasses.asdict(sweep)))
    kept = read_record(tmp_path / "record.json").sweep
    assert kept["collectives"] == ["all_reduce"]
    assert kept["sizes"] == ["8", "4K"]
    assert set(kept) == {field.name for field in dataclasses.fields(Sweep)}


def test_a_number_that_json_lacks_is_never_written(tmp_path):
    with pytest.raises(ValueError):
        write_record(tmp_path / "record.json", record(timing_seconds=float("nan")))
    with pytest.raises(ValueError):
        append_line(tmp_path / "lines", {"elapsed_seconds": float("inf")})
    assert list(tmp_path.glob("*.json")) == []


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "[1]", "3", "null", "{}", '{"schema_version": 1}', "\ud800".encode("utf-8", "surrogatepass")],
)
def test_what_is_no_record_is_refused_with_its_name_and_the_remedy(tmp_path, refusal, content):
    path = tmp_path / "record.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    text = refusal(lambda: read_record(path))
    assert text.startswith(f"{path} isn't a record of collectives that can be read")
    assert text.endswith(": delete it and measure again.")


def test_a_record_cut_short_anywhere_is_refused(tmp_path, refusal):
    path = tmp_path / "record.json"
    write_record(path, record())
    whole = path.read_bytes().rstrip()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        assert str(path) in refusal(lambda: read_record(path))


def test_a_file_that_is_not_there_is_refused(tmp_path, refusal):
    assert "No such file" in refusal(lambda: read_record(tmp_path / "none.json"))


@pytest.mark.parametrize("version", [0, SCHEMA_VERSION + 1, "1", None])
def test_another_schema_version_is_refused_whatever_else_the_file_holds(tmp_path, refusal, version):
    path = tmp_path / "record.json"
    path.write_text(json.dumps({"schema_version": version, "new": True}))
    text = refusal(lambda: read_record(path))
    assert text == (
        f"{path} is of schema version {version}, this program reads {SCHEMA_VERSION}: delete it and measure again."
    )


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"workers": "2"}, "workers"),
        ({"status": "fine"}, "status"),
        ({"colors": "#111111"}, "colors"),
        ({"timing_seconds": None}, "timing_seconds"),
        ({"hosts": {"name": "one"}}, "hosts"),
        ({"cells": [{"collective": "gather", "size_bytes": 8.5, "status": "ok"}]}, "size_bytes"),
        ({"cells": [{"collective": "gather", "size_bytes": 8, "status": "fine"}]}, "status"),
        ({"cells": [{"collective": "gather", "size_bytes": 8, "status": "ok", "left_seconds": [0.5]}]}, "left_seconds"),
    ],
)
def test_a_value_of_another_type_is_refused_with_its_field(tmp_path, refusal, changes, name):
    path = tmp_path / "record.json"
    changed(path, **changes)
    text = refusal(lambda: read_record(path))
    assert text == f"{path} is damaged (no record has such a value of {name}): delete it and measure again."


@pytest.mark.parametrize(
    "changes",
    [
        {"unknown": 1},
        {"cells": None},
        {"cells": [3]},
        {"cells": [{"collective": "gather"}]},
        {"cells": [{"collective": "gather", "size_bytes": 8, "status": "ok", "unknown": 1}]},
    ],
)
def test_fields_that_are_unknown_or_missing_are_refused(tmp_path, refusal, changes):
    path = tmp_path / "record.json"
    changed(path, **changes)
    assert str(path) in refusal(lambda: read_record(path))


def test_a_field_that_was_added_later_has_its_default_in_an_older_file(tmp_path):
    path = tmp_path / "record.json"
    values = dataclasses.asdict(record())
    del values["link"], values["repetition"], values["cells"][0]["source"]
    path.write_text(json.dumps(values))
    read = read_record(path)
    assert (read.link, read.repetition, read.cells[0].source) == ({}, 1, "")


def test_the_records_of_a_folder_come_by_name_and_in_order_and_nothing_else_is_one(tmp_path):
    for name in ("b", "a"):
        write_record(tmp_path / f"{name}.json", record(library=name))
    append_line(cells_path(tmp_path / "c.json"), {"collective": "gather"})
    (tmp_path / "a.log").write_text("not a record")
    found = read_records(tmp_path)
    assert [(name, each.library) for name, each in found.items()] == [("a", "a"), ("b", "b")]


def test_a_damaged_record_among_good_ones_is_named(tmp_path, refusal):
    write_record(tmp_path / "a.json", record())
    (tmp_path / "b.json").write_text("{")
    assert str(tmp_path / "b.json") in refusal(lambda: read_records(tmp_path))


def test_lines_are_kept_one_by_one_in_the_order_in_which_they_came(tmp_path):
    path = cells_path(tmp_path / "record.json")
    lines = [{"started_at": "now"}, dataclasses.asdict(record().cells[0]), {"reason": "two\nlines, and \u2028 too"}]
    for line in lines:
        append_line(path, line)
    assert read_lines(path) == lines
    assert path.parent == tmp_path
    assert path != tmp_path / "record.json"


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


def test_without_a_file_there_are_no_lines(tmp_path):
    assert read_lines(tmp_path / "none") == []


def test_a_line_that_cannot_be_written_is_refused_with_the_file_and_a_remedy(tmp_path, refusal):
    path = tmp_path / "none" / "lines"
    text = refusal(lambda: append_line(path, {}))
    assert text.startswith(f"{path} can't be written to (No such file or directory):")
