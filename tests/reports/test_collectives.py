"""The report of a session of collectives, on records made by hand."""

import json
import sys
from functools import partial

import pytest
import tyro
from msgspec import structs

from common.declarations.sweep import Sweep
from common.errors import UserError, exit_with_one_line
from common.records.collectives import Cell, CollectivesRecord
from common.records.files import from_json, write_record
from reports import collectives
from reports.blocks import DASH, number
from reports.render import pdf
from reports.render.shell import draw_all
from reports.tables.results import Results
from tests.reports.charts.read_marks import Expected, missing, read
from tests.reports.drawings import words
from tests.reports.pieces import headings, table_under
from tests.reports.records import HOST
from tests.reports.replays import replay

SIZES = (8, 1024, 131_072, 1_048_576)
HERE = "2 ranks, cpu, float32"


def cell(size_bytes: int, seconds: float, **changes: object) -> Cell:
    """A good cell with two calls of so many seconds; the second rank begins each 2 us after the first."""
    values = {
        **{"collective": "all_reduce", "size_bytes": size_bytes, "status": "ok"},
        "entered_seconds": [[0.0, 1.0], [2e-6, 1 + 2e-6]],
        "left_seconds": [[2e-6 + seconds, 1 + 2e-6 + seconds]] * 2,
        **{"counted_calls": 10, "sent_bytes": 2.02 * size_bytes, "formula_bytes": 2.0 * size_bytes},
        **{"processor_seconds": 1e-6, "algorithm": "ring", "formula": "2 (N - 1) S", "source": "a paper"},
    }
    return Cell(**values | changes)


def launch(*cells: Cell, library: str = "amber", repetition: int = 1, **changes: object) -> CollectivesRecord:
    values = {
        **{"library": library, "title": f"The library {library}", "family": "Amber", "colors": ["#17457e", "#56b4e9"]},
        **{"status": "ok", "repetition": repetition, "world_size": 2, "timing_seconds": 1e-7, "backend": "carrier"},
        "sweep": Sweep(),
        "threads_per_worker": 1,
        "started_at": "2026-01-02T03:04:05.678+00:00",
        **{"versions": {"numpy": "2.4.6"}, "host": HOST},
        "cells": list(cells),
    }
    return from_json(values | changes, CollectivesRecord)


def launches(library: str, latency: float, n: int = 6, changed: dict | None = None, **fields: object) -> list:
    """n launches whose sizes take `latency` and a microsecond for each 1000 bytes, and 1 % more in each round."""
    found = []
    for place in range(n):
        cells = [cell(size, (latency + 1e-9 * size) * (1 + place / 100), **(changed or {})) for size in SIZES]
        found.append(launch(*cells, library=library, repetition=place + 1, **fields))
    return found


def session(folder, *records: CollectivesRecord) -> Results:
    for path in folder.glob("*.json"):
        path.unlink()
    for place, record in enumerate(records):
        write_record(folder / f"{place:02d}.json", record)
    (folder / "command.txt").write_text("nox -s collectives -- --some-option\n")
    return collectives.read_session(folder)


def content_of(folder, *records: CollectivesRecord) -> dict:
    return collectives.compose(session(folder, *records))[0]


def leading(content: dict) -> list[list[str]]:
    """The rows of the first page's table."""
    return next(block for block in content["blocks"] if block["kind"] == "table")["rows"]


def headline(content: dict) -> str:
    return next(block["text"] for block in content["blocks"] if block["kind"] == "headline")


def rows_under(content: dict, heading: str) -> list[dict[str, str]]:
    found = table_under(content["blocks"], heading)
    return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]


def drawn(folder, *records: CollectivesRecord) -> str:
    [image] = draw_all(collectives.compose(session(folder, *records))[1]).values()
    return image.decode()


@pytest.fixture(scope="module")
def usual(tmp_path_factory) -> tuple[dict, partial, str]:
    """The document on six launches of a library, how its figure is drawn, and that figure."""
    content, drawings = collectives.compose(session(tmp_path_factory.mktemp("usual"), *launches("amber", 1e-5)))
    [draw] = drawings.values()
    return content, draw, draw().decode()


def test_a_folder_of_records_becomes_a_pdf_and_a_page_with_every_library(tmp_path, capsys):
    unsupported = launch(library="cobalt", status="unsupported", reason="It has *no* #GPU.", host={}, versions={})
    session(tmp_path, *launches("amber", 1e-5, 2), *launches("teal", 2e-5, 2), unsupported)
    out = tmp_path / "out" / "report.pdf"
    collectives.write_report(tmp_path, out)
    assert out.read_bytes().startswith(b"%PDF-")
    assert b"pdfuaid:part" in out.read_bytes()
    page = out.with_suffix(".html").read_text()
    assert all(f"The library {name}" in page for name in ("amber", "teal", "cobalt"))
    assert "It has *no* #GPU." in page
    assert "5 records" in capsys.readouterr().out


def test_the_same_records_make_the_same_pdf(tmp_path):
    found = session(tmp_path, *launches("amber", 1e-5, 1))
    (first, drawings), (second, _) = collectives.compose(found), collectives.compose(found)
    images = draw_all(drawings)
    assert pdf.typeset(found.started_at, first, images) == pdf.typeset(found.started_at, second, images)


def test_a_folder_without_records_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["reports.collectives", "--results", str(tmp_path), "--out", f"{tmp_path}/a.pdf"])
    with pytest.raises(SystemExit) as ending:
        exit_with_one_line(partial(tyro.cli, collectives.write_report))
    assert ending.value.code == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "holds no records of collectives: measure some first" in line
    assert not (tmp_path / "a.pdf").exists()


def test_a_folder_of_replays_is_one_line_that_names_the_report_on_them(tmp_path):
    write_record(tmp_path / "replay.json", replay(1.0))
    with pytest.raises(UserError, match="holds replays of steps: give its parent to `nox -s report"):
        collectives.read_session(tmp_path)


def test_a_damaged_record_is_named(tmp_path):
    (tmp_path / "damaged.json").write_text("{")
    with pytest.raises(UserError, match="damaged"):
        collectives.write_report(tmp_path, tmp_path / "report.pdf")


def test_the_first_page_says_which_library_is_in_front_at_every_size_and_how_sure_that_is(tmp_path):
    content = content_of(tmp_path, *launches("amber", 1.2e-5), *launches("teal", 2e-5))
    # The medians of 1.00 to 1.05 times 12.008 us and so on; at the largest size they are alike to within 5 %.
    assert leading(content) == [
        ["all_reduce", HERE, "amber\n12.3", "amber\n13.3", "amber\n147", "amber =\n1,087"],
    ]
    assert headline(content) == (
        "amber is in front at 4 of 4 collectives and sizes: the fastest at 3, equivalent to the fastest at 1."
    )
    [table, *_] = [block for block in content["blocks"] if block["kind"] == "table"]
    assert [[bool(color) for color in row] for row in table["tints"]] == [[False, False, True, True, True, True]]


def test_a_library_that_cannot_be_told_from_another_leads_without_a_color(tmp_path):
    uneven = [
        launch(*(cell(size, 1e-5 * (3 if n % 2 else 1) * (1 + n / 1000)) for size in SIZES), repetition=n)
        for n in range(1, 7)
    ]
    other = [
        structs.replace(each, library="teal", title="The library teal", repetition=7 - each.repetition)
        for each in uneven
    ]
    content = content_of(tmp_path, *uneven, *other)
    [row] = leading(content)
    assert {name.partition("\n")[0][-1] for name in row[2:]} == {"?"}
    assert headline(content) == "No library is shown to be the fastest at any of 4 collectives and sizes."
    assert next(block["tints"] for block in content["blocks"] if block["kind"] == "table") == []


def test_fewer_than_six_launches_tell_nothing_and_have_no_intervals(tmp_path):
    content = content_of(tmp_path, *launches("amber", 1e-5, 5), *launches("teal", 2e-5, 5))
    assert leading(content)[0][2] == "amber\n10.2"
    assert headline(content) == "No two libraries share rounds enough to say which is faster."
    assert {row["95 %\ninterval"] for row in rows_under(content, HERE)} == {DASH}
    assert "(" not in rows_under(content, "Latency and bandwidth")[0]["alpha, µs"]


def test_six_launches_have_intervals_in_the_tables(tmp_path):
    content = content_of(tmp_path, *launches("amber", 2e-5))
    row = rows_under(content, HERE)[0]
    assert (row["n"], row["time,\nµs"], row["95 %\ninterval"]) == ("6", "20.5", "20.0 to 21.0")
    assert rows_under(content, "Latency and bandwidth")[0]["alpha, µs"].startswith("20.5\n(20.")


def test_the_tables_have_each_size_with_its_bandwidths_and_bytes(tmp_path):
    content = content_of(tmp_path, *launches("amber", 1e-5, 1))
    rows = rows_under(content, HERE)
    assert [row["size, B"] for row in rows] == ["8", "1,024", "131,072", "1,048,576"]
    # 1,048,576 bytes in 1,058.576 us; of two ranks the bus carries as much.
    assert (rows[-1]["algbw,\nMB/s"], rows[-1]["busbw,\nMB/s"]) == ("991", "991")
    assert rows[-1]["arrival,\nµs"] == "2.00"
    assert [*rows[-1].values()][8:] == ["1,059,062", "1,048,576", "0.000954"]
    tables = [block for block in content["blocks"] if block["kind"] == "table"]
    assert tables[2]["rows"] == [["amber", "8 to 1,048,576", "ring", "2 (N - 1) S", "a paper"]]


def test_a_second_piece_says_from_which_size_on_it_holds(tmp_path):
    # Up to 4 KiB a call takes 10 us, from then on 100 us and a nanosecond for each byte.
    sizes = [2**place for place in range(3, 22)]
    found = [
        launch(*(cell(size, (1e-5 if size <= 4096 else 1e-4 + 1e-9 * size) * factor) for size in sizes), repetition=n)
        for n, factor in enumerate((1.0, 1.01, 1.02, 1.03, 1.04, 1.05), start=1)
    ]
    content, drawings = collectives.compose(session(tmp_path, *found))
    rows = rows_under(content, "Latency and bandwidth")
    assert [row["to, B"] for row in rows] == ["4,096", "2,097,152"]
    assert [row["holds from, B"] for row in rows] == ["8", "8,192\n(8,192 to 8,192)"]
    [image] = draw_all(drawings).values()
    # Not each of 19 sizes has room for its name.
    assert {"8", "32", "2 Mi"} <= set(words(image.decode()))
    assert "16" not in words(image.decode())


def test_bytes_that_differ_stand_beside_each_other(tmp_path):
    content = content_of(tmp_path, *launches("amber", 1e-5, 1, {"sent_bytes": 2.2e6, "formula_bytes": 1e6}))
    assert [*rows_under(content, HERE)[-1].values()][8:10] == ["1,100,000", "500,000"]


def test_what_is_not_known_is_no_zero(tmp_path):
    unknown = {"sent_bytes": None, "formula_bytes": None, "processor_seconds": None}
    content = content_of(tmp_path, *launches("amber", 1e-5, 1, unknown))
    assert [*rows_under(content, HERE)[0].values()][8:] == [DASH, DASH, DASH]


def test_variables_that_were_set_and_machines_that_were_pooled_are_among_the_facts(tmp_path):
    def facts(*records):
        tables = [block for block in content_of(tmp_path, *records)["blocks"] if block["kind"] == "table"]
        return dict(tables[-1]["rows"])

    here, there = (launches("amber", 1e-5, 1, host={"name": name})[0] for name in ("here", "there"))
    assert facts(here)["variables that frameworks obey"] == "unknown: the folder has no variables.txt"
    (tmp_path / "variables.txt").write_text('{"UCX_TLS": "tcp"}')
    assert facts(here)["variables that frameworks obey"] == "UCX_TLS=tcp"
    assert "machines, pooled" not in facts(here)
    assert facts(here, there)["machines, pooled"] == "here, there"


def test_an_arrival_that_clocks_cannot_tell_says_so(tmp_path):
    hosts = [
        {"name": name, "workers": 1, "clock_offset_seconds": 0.0, "clock_uncertainty_seconds": 3e-6}
        for name in ("one", "other")
    ]
    content = content_of(tmp_path, *launches("amber", 1e-4, 1, hosts=hosts))
    assert rows_under(content, "2 ranks, 2 hosts, cpu, float32")[0]["arrival,\nµs"] == "< 6.00"


def test_oversubscribed_libraries_have_a_dagger_and_are_not_compared(tmp_path):
    oversubscribed = launches("teal", 2e-5, oversubscribed=True)
    alone, drawings = collectives.compose(session(tmp_path, *oversubscribed))
    assert leading(alone)[0][2] == "teal†\n20.5"
    content = content_of(tmp_path, *launches("amber", 1e-5), *oversubscribed)
    assert leading(content)[0][2] == "amber\n10.3"
    for heading in (HERE, "Latency and bandwidth", "What timing costs"):
        assert {row["library"] for row in rows_under(content, heading)} == {"amber", "teal†"}
    [image] = draw_all(drawings).values()
    assert "† more threads than cores" in words(image.decode())


def test_a_figure_differs_when_the_data_differ_and_only_then(tmp_path, usual):
    *_, first = usual
    assert first == drawn(tmp_path, *launches("amber", 1e-5))
    assert first != drawn(tmp_path, *launches("amber", 3e-5))
    assert "<image" not in first
    assert {"amber", "8", "1 Ki", "128 Ki", "1 Mi"} <= set(words(first))


def test_every_launch_is_a_mark_and_six_have_intervals(tmp_path, usual):
    few = drawn(tmp_path, *launches("amber", 1e-5, 1))
    assert "95 % interval of the median" not in words(few)
    *_, many = usual
    assert "95 % interval of the median" in words(many)
    counts = [sum("a launch" in mark.tip for mark in read(svg.encode())) for svg in (few, many)]
    assert counts == [len(SIZES), 6 * len(SIZES)]


def test_every_number_of_a_collective_is_a_mark_where_it_belongs_and_no_other_number_is(usual):
    rows, _, looks = usual[1].args
    svg, aside = usual[2].encode(), 2 ** looks["amber"].shift

    def expected(factor: float) -> list[Expected]:
        marks = []
        for row in rows:
            at = row.size_bytes * aside
            median, *all_launches = (1e6 * factor * each for each in (row.seconds.median, *row.launch_seconds))
            marks.append(Expected("microseconds", "amber", {"median": f"{number(median)} µs"}, [(at, median)]))
            ends = [(at, 1e6 * factor * end) for end in (row.seconds.low, row.seconds.high)]
            marks.append(Expected("microseconds", "amber", {"launches (n)": "6"}, ends))
            for each in all_launches:
                marks.append(Expected("microseconds", "amber", {"a launch": f"{number(each)} µs"}, [(at, each)]))
        return marks

    assert missing(svg, expected(1.0)) == []
    # By half a per cent, since launches are one per cent apart.
    assert len(missing(svg, expected(1.005))) == len(expected(1.005))
    assert [mark for mark in read(svg) if not any(each.is_drawn_as(mark) for each in expected(1.0))] == []


def test_a_barrier_has_a_table_and_no_figure(tmp_path):
    records = [launch(cell(0, 1e-5, collective="barrier"))]
    content, drawings = collectives.compose(session(tmp_path, *records))
    assert not drawings
    assert [row["algbw,\nMB/s"] for row in rows_under(content, HERE)] == [DASH]
    [table, *_] = [block for block in content["blocks"] if block["kind"] == "table"]
    assert (table["columns"][2], table["rows"]) == ("no data", [["barrier", HERE, "amber\n10.0"]])


def test_each_number_of_ranks_stands_for_itself(tmp_path):
    four = [launch(cell(8, 1e-5, entered_seconds=[[0.0]] * 4, left_seconds=[[1e-5]] * 4), world_size=4)]
    titles = headings(content_of(tmp_path, *launches("amber", 1e-5, 1), *four)["blocks"])
    assert {HERE, "4 ranks, cpu, float32"} <= set(titles)


def test_what_timing_costs_is_a_share_of_the_shortest_call(tmp_path):
    content = content_of(tmp_path, *launches("amber", 9.992e-6, 1, timing_seconds=2e-7))
    assert rows_under(content, "What timing costs")[0]["share"] == "2.00 %"


def test_what_is_not_there_has_its_reason(tmp_path):
    gone = [Cell(collective="gather", size_bytes=size, status="unsupported", reason="It has none.") for size in (8, 16)]
    content = content_of(tmp_path, launch(*gone), launch(library="teal", status="failed", reason="It ended."))
    found = [list(row.values()) for row in rows_under(content, "What isn't there")]
    assert sorted(found) == [
        ["amber", "gather", "2", "8 to 16", "unsupported", "1", "It has none."],
        ["teal", "all", "2", DASH, "failed", "1", "It ended."],
    ]
    assert "No launch measured anything." in json.dumps(content)


def test_the_line_that_repeats_it_is_there(tmp_path):
    content = content_of(tmp_path, *launches("amber", 1e-5, 1))
    assert "nox -s collectives -- --some-option" in json.dumps(content)


def test_a_library_that_another_one_beats_in_their_rounds_is_not_called_the_fastest(tmp_path):
    found = []
    for start, (fast, slow) in enumerate((("amber", "teal"), ("teal", "cobalt"), ("cobalt", "amber"))):
        for library, latency in ((fast, 1e-5), (slow, 3e-5)):
            found += [
                structs.replace(each, repetition=each.repetition + 6 * start) for each in launches(library, latency)
            ]
    content = content_of(tmp_path, *found)
    assert leading(content)[0][2].partition("\n")[0].endswith(" ?")


def test_of_algorithms_by_hand_the_report_draws_who_sends_what_when(tmp_path, usual):
    failed = launch(library="binomial_tree", status="failed", reason="It broke.")
    content, drawings = collectives.compose(
        session(tmp_path, *launches("ring", 1e-5), *launches("amber", 1e-5), failed)
    )
    assert "Who sends what when" in headings(content["blocks"])
    for name in ("messages.svg", "narrow-messages.svg"):
        assert {"ring: 1/4"} == {mark.panel for mark in read(drawings[name]())}
    assert "Who sends what when" not in headings(usual[0]["blocks"])
