"""The medians of two folders beside each other, and what else differs between these."""

import dataclasses
from pathlib import Path

from common.records.training import Record
from reports import document
from reports.blocks import DASH, Block
from reports.tables.material import Material
from reports.tables.results import Results
from reports.words import side_by_side
from tests.changes import changed
from tests.reports.pieces import headings
from tests.reports.records import HOST, make_record, named, over_hosts

ELSEWHERE = HOST | {"name": "there", "processor": "Other CPU", "cores": 8}


def results(*records: Record, folder: str = "here") -> Results:
    return Results(Path(folder), named(*records), None)


def section(here: Results, there: Results | None) -> list[Block]:
    return side_by_side.section(Material(here, there))


def tables(blocks: list[Block]) -> list[list[list[str]]]:
    return [block["rows"] for block in blocks if block["kind"] == "table"]


def six(name: str, milliseconds: float, workers: int = 2, **fields: object) -> list[Record]:
    return [make_record(name, workers, (milliseconds + number / 100,) * 3, **fields) for number in range(6)]


def test_cells_of_both_stand_beside_each_other_with_their_numbers_and_the_ratio_of_the_medians():
    there = results(make_record("amber_ring", 2, (1.0,) * 3, host=ELSEWHERE), folder="there")
    _, rows = tables(section(results(*six("amber_ring", 2.0), make_record("amber_single")), there))
    # Of 2.00, 2.01 to 2.05 ms the median is 2.025; 128 rows in it are 63,210 a second.
    assert rows == [
        [
            *["amber_ring", "2"],
            *["6", "2.02", "2.00 to 2.05", "63,210", "1", "1.00", DASH, "128,000", "2.02"],
        ]
    ]


def test_what_differs_is_listed_first_and_nothing_else():
    changed = {"host": ELSEWHERE, "git_commit": "fedcba", "versions": {"python": "3.12.1", "numpy": "2.4.6"}}
    there = results(make_record("amber_ring", 2, **changed, started_at="2026-03-04T00:00:00.000+00:00"), folder="there")
    blocks = section(results(make_record("amber_ring", 2)), there)
    assert [block["kind"] for block in blocks] == ["heading", "text", "table", "heading", "table"]
    assert blocks[3]["text"] == "digits weak"
    assert tables(blocks)[0] == [
        ["machine", "here", "there"],
        *[
            [
                "hardware",
                *(
                    f"{each}; memory 8.0 GiB; GPUs none; Linux 6"
                    for each in ("Some CPU, 2 cores", "Other CPU, 8 cores")
                ),
            ]
        ],
        ["measured", "2026-01-02 03:04 UTC, commit 0123456789abcdef", "2026-03-04 00:00 UTC, commit fedcba"],
        ["python", "3.11.7", "3.12.1"],
    ]


def test_a_library_that_one_of_both_lacks_is_listed():
    there = results(make_record("amber_ring", 2, versions={"python": "3.11.7"}), folder="there")
    assert tables(section(results(make_record("amber_ring", 2)), there))[0] == [["numpy", "2.4.6", DASH]]


def test_cells_of_one_folder_alone_of_another_task_or_without_exchange_have_no_row():
    record = make_record("amber_ring", 2)
    longer = dataclasses.replace(record.task, steps=80)
    silent = changed(record, options=record.options | {"exchange": False})
    there = [make_record("cobalt_replicas", 2), make_record("amber_ring", 1), silent]
    there.append(make_record("amber_ring", 2, task=longer))
    blocks = section(results(record), results(*there, folder="there"))
    assert blocks[-1]["text"] == "No strategy was measured at the same task with as many workers in both."


def test_two_tasks_of_one_preset_are_told_apart():
    record = make_record("amber_ring", 2)
    other = make_record("amber_ring", 2, task=dataclasses.replace(record.task, steps=80))
    blocks = section(results(record, other), results(record, other, folder="there"))
    regimes = [block["text"] for block in blocks if block.get("level") == 2]
    assert len(set(regimes)) == 2
    assert all(regime.startswith("digits weak (--preset digits") for regime in regimes)


def test_what_one_folder_measured_on_several_machines_is_left_out_and_said():
    ring = make_record("amber_ring", 2)
    there = [ring, make_record("amber_ring", 2, host=ELSEWHERE), make_record("cobalt_replicas", 2)]
    blocks = section(results(ring, make_record("cobalt_replicas", 2)), results(*there, folder="there"))
    assert [row[0] for row in tables(blocks)[-1]] == ["cobalt_replicas"]
    assert blocks[-1]["text"] == "Left out, there: what was measured on several machines."


def test_more_threads_than_cores_are_marked():
    blocks = section(results(make_record("amber_ring", 4)), results(make_record("amber_ring", 4), folder="there"))
    assert tables(blocks)[-1][0][1] == "4†"
    assert any(note.startswith("†") for note in blocks[-1]["notes"])


def test_the_section_follows_the_four_chapters_and_is_there_only_when_asked_for():
    here, there = results(make_record("amber_ring", 2)), results(make_record("amber_ring", 2), folder="there")
    blocks = document.compose(Material(here, there))[0]["blocks"]
    assert headings(blocks, level=1)[-2:] == ["Beside there", "Every table"]
    assert section(here, None) == []


def test_virtual_hosts_do_not_stand_beside_real_ones():
    here, there = results(over_hosts(megabits=None)), results(over_hosts(megabits=None, virtual=None), folder="there")
    assert "No strategy was measured at the same task" in section(here, there)[-1]["text"]
    alike = section(here, results(over_hosts(megabits=None), folder="there"))
    assert headings(alike, 2) == ["digits weak, virtual hosts"]


def test_where_nothing_differs_that_is_said():
    blocks = section(results(make_record("amber_ring", 2)), results(make_record("amber_ring", 2), folder="there"))
    assert "nothing else that differs" in blocks[2]["text"]
