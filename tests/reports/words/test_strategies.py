"""The table of the strategies: what each is, and where its script distributes."""

from reports.blocks import DASH
from reports.words import strategies
from tests.changes import changed
from tests.reports.materials import material_of
from tests.reports.records import make_record, unfinished, varied

BASE = make_record("amber_single", 1, (1.5,) * 3)
QUOTED = {"script": "amber_impl/ring.py", "distributed_by": [{"line": 41, "code": "a"}, {"line": 57, "code": "b"}]}
RING = make_record("amber_ring", 2, (2.0,) * 3, **QUOTED)


def rows(*records) -> list[list[str]]:
    return [row for block in strategies.section(material_of(*records)) for row in block.get("rows", [])]


def test_every_measured_strategy_has_a_row_whatever_its_labels():
    found = rows(BASE, RING, varied("amber_ring", 2, compiled=True), unfinished("failed", "It ended.", "amber_parts"))
    assert found == [
        ["amber_ring", "amber", "amber_single", "synchronous", "amber_impl/ring.py: 41, 57"],
        ["amber_single", "amber", "none: distributes nothing", "synchronous", DASH],
    ]
    assert rows(unfinished("failed", "It ended.")) == []


def test_the_lines_are_those_of_the_newest_record_that_has_any():
    older = changed(RING, started_at="2025-01-01T00:00:00+00:00", distributed_by=[{"line": 1, "code": "old"}])
    silent = changed(RING, started_at="2027-01-01T00:00:00+00:00", distributed_by=[])
    [row] = rows(RING, older, silent)
    assert row[-1] == "amber_impl/ring.py: 41, 57"


def test_asynchronous_updates_are_said():
    [row] = rows(make_record("cobalt_servers", 2, synchronous=False), varied("cobalt_servers", 1))
    assert row[3] == "asynchronous"
