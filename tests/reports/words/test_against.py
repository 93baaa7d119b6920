"""What stands beside records: another folder's medians, and what came of a comparison against another commit."""

import dataclasses
from pathlib import Path

from common.records import change
from common.records.change import Change
from common.records.tables import write_rows
from common.records.training import Record
from reports import document
from reports.blocks import DASH, Block
from reports.tables.material import Material
from reports.tables.results import Results
from reports.words import against
from tests.changes import changed
from tests.reports.pieces import headings
from tests.reports.records import HOST, make_record, named, over_hosts

ELSEWHERE = HOST | {"name": "there", "processor": "Other CPU", "cores": 8}
RING = make_record("amber_ring", 2)


def material_of(here: list[Record], there: list[Record]) -> Material:
    sides = [Results(Path(folder), named(*own), None) for folder, own in (("here", here), ("there", there))]
    return Material(*sides)


def section(here: list[Record], there: list[Record]) -> list[Block]:
    return against.another_folder(material_of(here, there))


def tables(blocks: list[Block]) -> list[list[list[str]]]:
    return [block["rows"] for block in blocks if block["kind"] == "table"]


def test_cells_of_both_stand_beside_each_other_with_their_numbers_and_the_ratio_of_the_medians():
    six = [make_record("amber_ring", 2, (2.0 + number / 100,) * 3) for number in range(6)]
    there = make_record("amber_ring", 2, (1.0,) * 3, host=ELSEWHERE)
    _, rows = tables(section([*six, make_record("amber_single")], [there]))
    # Of 2.00, 2.01 to 2.05 ms the median is 2.025; 128 rows in it are 63,210 a second.
    assert rows == [
        ["amber_ring", "2", "6", "2.02", "2", "2.05", "63,210", "1", "1", DASH, DASH, "128,000", "2.02"],
    ]


def test_what_differs_is_listed_first_and_nothing_else():
    changes = {"host": ELSEWHERE, "git_commit": "fedcba", "versions": {"python": "3.12.1"}}
    there = make_record("amber_ring", 2, **changes, started_at="2026-03-04T00:00:00.000+00:00")
    blocks = section([RING], [there])
    assert [block["kind"] for block in blocks] == ["heading", "text", "table", "heading", "table"]
    assert blocks[3]["text"] == "digits weak"
    hardware = "{}; memory 8.0 GiB; GPUs none; Linux 6".format
    assert tables(blocks)[0] == [
        ["machine", "here", "there"],
        ["hardware", hardware("Some CPU, 2 cores"), hardware("Other CPU, 8 cores")],
        ["measured", "2026-01-02 03:04 UTC, commit 0123456789abcdef", "2026-03-04 00:00 UTC, commit fedcba"],
        ["numpy", "2.4.6", DASH],
        ["python", "3.11.7", "3.12.1"],
    ]
    assert "nothing else that differs" in section([RING], [RING])[1]["text"]


def test_cells_of_one_folder_alone_of_another_task_without_exchange_or_of_real_beside_virtual_hosts_have_no_row():
    silent = changed(RING, options=RING.options | {"exchange": False})
    virtual, real = over_hosts(megabits=None), over_hosts(megabits=None, virtual=None)
    there = [make_record("cobalt_replicas", 2), make_record("amber_ring", 1), silent, real]
    there.append(make_record("amber_ring", 2, task=dataclasses.replace(RING.task, steps=80)))
    text = section([RING, virtual], there)[1]["text"]
    assert text.endswith("No strategy was measured at the same task with as many workers in both.")
    assert headings(section([virtual], [virtual]), 2) == ["digits weak, virtual hosts"]


def test_what_one_folder_measured_on_several_machines_is_left_out_and_said():
    replicas = make_record("cobalt_replicas", 4)
    blocks = section([RING, replicas], [RING, make_record("amber_ring", 2, host=ELSEWHERE), replicas])
    assert [row[:2] for row in tables(blocks)[-1]] == [["cobalt_replicas", "4\N{DAGGER}"]]
    assert blocks[1]["text"].endswith("Left out, there: what was measured on several machines.")


def test_the_section_follows_the_four_chapters_and_is_there_only_when_asked_for():
    blocks = document.compose(material_of([RING], [RING]))[0]["blocks"]
    assert headings(blocks, level=1)[-2:] == ["Beside there", "Every table"]
    assert against.another_folder(Material(Results(Path(), named(RING), None))) == []


def test_every_setting_stands_in_the_table_with_its_verdict_where_there_was_a_commit(tmp_path):
    about = {"workers": 2, "preset": "digits", "scaling": "weak", "exchange": True, "rev": "main", "commit": "1" * 40}
    about |= {"here": "2" * 40 + "+changes", "tolerance": 0.05, "notes": "Both run here."}
    slower = about | {"here_seconds": 0.0025, "there_seconds": 0.002, "ratio": 1.25, "low": 1.24, "high": 1.26}
    rows = [
        Change(strategy="amber_ring", n=6, verdict="slower", **slower),
        Change(strategy="cobalt_single", n=2, verdict="too few rounds", **about | {"exchange": False, "ratio": 1.0}),
        Change(strategy="amber_library", n=0, verdict="fails", note="failed here: It *ended* (6 of 6)", **about),
    ]
    write_rows(tmp_path / change.FILE, rows, Change)
    material = Material(Results(tmp_path, {}, None))
    assert against.another_commit(Material(Results(tmp_path / "other", {}, None))) == []
    assert "Against commit 1111111111" in headings(document.compose(material)[0]["blocks"], 1)
    _, said, _, table = against.another_commit(material)
    counts = "of 3 settings: 1 slower, 1 fails here, 1 not compared."
    assert f"2222222222 with changes against main (1111111111), {counts}" in said["text"]
    assert "The gate is shut: Slower than main" in said["text"]
    assert said["text"].endswith("Both run here.")
    assert table["rows"] == [
        ["amber_ring", "2", "digits weak", "on", "2.50", "2.00", "1.250", "1.240 to 1.260", "6", "slower"],
        ["cobalt_single", "2", "digits weak", "off", DASH, DASH, "1.000", DASH, "2", "too few rounds"],
        ["amber_library", "2", "digits weak", "on", DASH, DASH, DASH, DASH, "0", "fails"],
    ]
    assert table["notes"] == ["amber_library with 2 workers, digits weak: failed here: It *ended* (6 of 6)."]
