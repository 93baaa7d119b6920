"""The report of an experiment, on records made by hand: collectives, and a session of matrix products."""

import io
import json
import math
from functools import partial

import pytest
from msgspec import structs
from rich.console import Console

from common.declarations.sweep import Sweep
from common.errors import UserError
from common.laboratory import collectives, faults, matrix_products
from common.observations import display
from common.records.collective_times import Cell, CollectivesRecord
from common.records.files import from_json, read_records, write_record
from common.records.training import Record
from common.sessions import experiment as engine
from common.sessions.experiment import observed_of
from reports import experiment
from reports.blocks import DASH
from reports.render.shell import draw_all
from reports.tables.results import Origin
from tests.common.records import matrix_records
from tests.common.records.recoveries import RESTARTED, write_session
from tests.reports.charts.read_marks import number_in, read
from tests.reports.drawings import words
from tests.reports.pieces import headings, items, table_under
from tests.reports.records import HOST, make_record

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


def composed(*records: CollectivesRecord) -> tuple[dict, dict]:
    """What the report on these records says, and how its figures are drawn."""
    found = observed_of(collectives.EXPERIMENT, {f"{place:02d}": each for place, each in enumerate(records)})
    return experiment.compose(found, records, Origin("nox -s collectives -- --some-option"))


def content_of(*records: CollectivesRecord) -> dict:
    return composed(*records)[0]


def leading(content: dict) -> list[list[str]]:
    """The rows of the first page's table."""
    return next(block for block in content["blocks"] if block["kind"] == "table")["rows"]


def headline(content: dict) -> str:
    return next(block["text"] for block in content["blocks"] if block["kind"] == "headline")


def rows_under(content: dict, heading: str) -> list[dict[str, str]]:
    found = table_under(content["blocks"], heading)
    return [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]


def drawn(*records: CollectivesRecord) -> str:
    [image] = draw_all(composed(*records)[1]).values()
    return image.decode()


@pytest.fixture(scope="module")
def usual() -> tuple[dict, partial, str]:
    """The document on six launches of a library, how its figure is drawn, and that figure."""
    content, drawings = composed(*launches("amber", 1e-5))
    [draw] = drawings.values()
    return content, draw, draw().decode()


# From records to files


@pytest.fixture
def concluded(tmp_path, monkeypatch):
    """What is printed where a session that left these records is concluded in the temporary folder."""
    # In this process, which saves the start of another one.
    monkeypatch.setattr(engine, "report", lambda module, folder, out: experiment.write_report(folder, out) or 0)

    def conclude(told, records, out=tmp_path / "out" / "report.pdf"):
        for name, record in records.items():
            write_record(tmp_path / f"{name}.json", record)
        console = Console(file=io.StringIO(), width=200)
        assert engine.conclude(console, told, tmp_path, out) == int(
            any(r.status == "failed" and not told.may_fail(r) for r in records.values())
        )
        return console.file.getvalue()

    return conclude


def test_a_folder_of_records_becomes_a_pdf_and_a_page_with_every_library(concluded, tmp_path, capsys):
    gone = launch(library="cobalt", status="unsupported", reason="It has *no* #GPU.", host={}, versions={})
    records = [*launches("amber", 1e-5, 2), *launches("teal", 2e-5, 2), gone]
    printed = concluded(collectives.EXPERIMENT, {f"{place:02d}": each for place, each in enumerate(records)})
    out = tmp_path / "out" / "report.pdf"
    assert out.read_bytes().startswith(b"%PDF-")
    assert b"pdfuaid:part" in out.read_bytes()
    page = out.with_suffix(".html").read_text()
    assert all(f"The library {name}" in page for name in ("amber", "teal", "cobalt"))
    assert "It has *no* #GPU." in page
    assert "5 records" in capsys.readouterr().out
    assert "5 launches: 4 ok, 1 unsupported, 0 failed." in printed
    # The terminal has the same rows as the report.
    content, _ = composed(*records)
    for row in table_under(content["blocks"], HERE)["rows"]:
        assert all(cell in printed for cell in row)


def test_what_is_kept_is_read_back_as_it_was_found(concluded, tmp_path):
    gone = launch(library="NA", status="failed", reason="It ended.")
    records = {f"{place:02d}": each for place, each in enumerate([*launches("amber", 1 / 3e5), gone])}
    concluded(collectives.EXPERIMENT, records)
    found, kept = observed_of(collectives.EXPERIMENT, records), display.read(tmp_path)
    assert kept.observed.equals(found.observed)
    assert kept.missing.equals(found.missing)
    assert kept.display == found.display


def test_matrix_products_have_the_same_report_and_their_figure_alone_where_it_is_asked_for(concluded, tmp_path):
    times = {"naive": {16: 0.001, 32: 0.008}, "alone": {64: 0.0001, 128: 0.0008}, "rows_mpi": {64: 0.0002, 128: 0.0006}}
    records = matrix_records.session(6, times)
    printed = concluded(matrix_products.EXPERIMENT, records, tmp_path / "picture.svg")
    drawn = {*words((tmp_path / "picture.svg").read_text())}
    assert {"naive", "alone", "rows over mpi, 2 workers", "16", "32", "64", "128"} <= drawn
    assert "Sharing a product pays: rows over mpi, 2 workers from size 128 on." in printed
    concluded(matrix_products.EXPERIMENT, records)
    page = (tmp_path / "out" / "report.html").read_text()
    assert "How time grows" in page
    assert "product 100" in page


def test_faults_are_shown_in_tables_and_as_the_steps_of_rank_0_over_time(concluded, tmp_path):
    printed = concluded(faults.EXPERIMENT, read_records(write_session(tmp_path), Record))
    # One that ended for good by its fault hasn't failed.
    assert "3 launches: 3 ok, 0 unsupported, 0 failed." in printed
    page = (tmp_path / "out" / "report.html").read_text()
    assert all(words in text for words in ("noticed after, s", "ended for good") for text in (page, printed))
    assert "paired t tests" not in page
    _, drawings = experiment.compose(display.read(tmp_path), [make_record()], Origin(""))
    marks = read(drawings["courses.svg"]())
    assert [mark.tip["launch"] for mark in marks] == ["some-kill-01", "some-kill-02", "some-kill-03"]
    # It goes on from step 150 in the second attempt.
    reached = sorted((moment.seconds, moment.step) for moment in RESTARTED.moments if moment.rank == 0)
    assert marks[0].points == [pytest.approx(place, abs=0.5) for place in reached]


def test_a_folder_that_was_never_concluded_or_has_no_records_is_one_line(tmp_path):
    with pytest.raises(UserError, match=r"holds no observations: give it to its own session, as `-- --again"):
        experiment.write_report(tmp_path, tmp_path / "report.pdf")
    with pytest.raises(UserError, match="holds no records of collectives: measure some first"):
        engine.conclude(Console(), collectives.EXPERIMENT, tmp_path, tmp_path / "report.pdf")
    # A comparison is no session of faults.
    write_record(tmp_path / "one.json", make_record())
    with pytest.raises(UserError, match="holds no records of faults: measure some first"):
        engine.conclude(Console(), faults.EXPERIMENT, tmp_path, tmp_path / "report.pdf")


@pytest.mark.parametrize("name", [display.OBSERVED, display.DISPLAY])
@pytest.mark.parametrize("content", [b'"\x00', b"series,x\namber,8\n"])
def test_a_damaged_file_is_one_line(concluded, tmp_path, name, content):
    concluded(collectives.EXPERIMENT, {"00": launch(cell(8, 1e-5))})
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=r"The observations in .+ can't be read .+ its own session with --again"):
        experiment.write_report(tmp_path, tmp_path / "report.pdf")


# The first page


def test_the_first_page_says_which_library_is_in_front_at_every_size_and_how_sure_that_is():
    content = content_of(*launches("amber", 1.2e-5), *launches("teal", 2e-5))
    # The medians of 1.00 to 1.05 times 12.008 us and so on; at the largest size they are alike to within 5 %.
    assert leading(content) == [
        ["all_reduce", HERE, "amber\n12.3", "amber\n13.3", "amber\n147", "amber =\n1,087"],
    ]
    assert headline(content) == "amber is in front in 4 of 4 cases: the fastest in 3, equivalent to the fastest in 1."
    [table, *_] = [block for block in content["blocks"] if block["kind"] == "table"]
    assert [[bool(color) for color in row] for row in table["tints"]] == [[False, False, True, True, True, True]]


def test_a_library_that_cannot_be_told_from_another_leads_without_a_color():
    uneven = [
        launch(*(cell(size, 1e-5 * (3 if n % 2 else 1) * (1 + n / 1000)) for size in SIZES), repetition=n)
        for n in range(1, 7)
    ]
    other = [structs.replace(each, library="teal", repetition=7 - each.repetition) for each in uneven]
    content = content_of(*uneven, *other)
    [row] = leading(content)
    assert {name.partition("\n")[0][-1] for name in row[2:]} == {"?"}
    assert headline(content) == "None is shown to be the fastest in any of 4 cases."
    assert next(block["tints"] for block in content["blocks"] if block["kind"] == "table") == []


def test_fewer_than_six_launches_tell_nothing_and_have_no_intervals():
    content = content_of(*launches("amber", 1e-5, 5), *launches("teal", 2e-5, 5))
    assert leading(content)[0][2] == "amber\n10.2"
    assert headline(content) == "No two share rounds enough to say which is faster."
    assert {row["95 %"] for row in rows_under(content, HERE)} == {DASH}
    assert "(" not in rows_under(content, "Latency and bandwidth")[0]["alpha, µs"]


# The tables


def test_the_tables_have_each_size_with_its_interval_bandwidths_and_bytes(usual):
    rows = rows_under(usual[0], HERE)
    assert [row["size, B"] for row in rows] == ["8", "1,024", "131,072", "1,048,576"]
    assert [rows[0][name] for name in ("n", "time, µs", "95 %")] == ["6", "10.3", "10.0 to 10.5"]
    # 1,048,576 bytes in 1,058.576 us and up to 5 % more; of two ranks the bus carries as much.
    assert (rows[-1]["algbw, MB/s"], rows[-1]["busbw, MB/s"]) == ("966", "966")
    assert (rows[-1]["arrival, µs"], rows[-1]["sent, B/rank"]) == ("2.00", "1,059,062")
    assert (rows[-1]["by formula, B/rank"], rows[-1]["CPU, ns/B"]) == ("1,048,576", "0.000954")
    assert rows_under(usual[0], "Algorithms")[0]["all ranks send"] == "2 (N - 1) S"
    assert rows_under(usual[0], "Latency and bandwidth")[0]["alpha, µs"].startswith("10.3 (10.")


def test_a_second_piece_says_from_which_size_on_it_holds():
    # Up to 4 KiB a call takes 10 us, from then on 100 us and a nanosecond for each byte.
    sizes = [2**place for place in range(3, 22)]
    found = [
        launch(*(cell(size, (1e-5 if size <= 4096 else 1e-4 + 1e-9 * size) * factor) for size in sizes), repetition=n)
        for n, factor in enumerate((1.0, 1.01, 1.02, 1.03, 1.04, 1.05), start=1)
    ]
    rows = rows_under(content_of(*found), "Latency and bandwidth")
    assert [(row["from, B"], row["to, B"]) for row in rows] == [("8", "4,096"), ("8,192", "2,097,152")]
    # Not each of 19 sizes has room for its name.
    said = {*words(drawn(*found))}
    assert {"8", "32", "2 Mi"} <= said
    assert "16" not in said


def test_what_is_not_known_is_no_zero_or_no_column():
    known, unknown = (launch(cell(8, 1e-5, sent_bytes=sent), library=name) for sent, name in ((16.0, "a"), (None, "b")))
    assert [row["sent, B/rank"] for row in rows_under(content_of(known, unknown), HERE)] == ["8.00", DASH]
    assert "sent, B/rank" not in rows_under(content_of(unknown), HERE)[0]


def test_oversubscribed_libraries_have_a_dagger_and_are_not_compared():
    oversubscribed = launches("teal", 2e-5, oversubscribed=True)
    assert leading(content_of(*oversubscribed))[0][2] == "teal†\n20.5"
    content = content_of(*launches("amber", 1e-5), *oversubscribed)
    assert leading(content)[0][2] == "amber\n10.3"
    assert {row["library"] for row in rows_under(content, HERE)} == {"amber", "teal†"}
    assert "† more threads than cores" in words(drawn(*oversubscribed))


def test_a_barrier_has_a_table_and_no_figure():
    content, drawings = composed(launch(cell(0, 1e-5, collective="barrier")))
    assert not drawings
    assert "algbw, MB/s" not in rows_under(content, HERE)[0]
    assert leading(content) == [["barrier", HERE, "amber\n10.0"]]


def test_what_is_not_there_has_its_reason_and_where_nothing_is_that_is_the_answer():
    gone = [Cell(collective="gather", size_bytes=size, status="unsupported", reason="It has none.") for size in (8, 16)]
    content = content_of(launch(*gone), launch(library="teal", status="failed", reason="It ended."))
    found = [list(row.values()) for row in rows_under(content, "What isn't there")]
    assert sorted(found) == [
        ["amber", "gather", HERE, "8 to 16", "unsupported", "1", "It has none."],
        ["teal", "all", HERE, DASH, "failed", "1", "It ended."],
    ]
    assert headline(content) == "No launch measured anything."


def test_the_line_that_repeats_it_and_what_timing_costs_are_there():
    content = content_of(*launches("amber", 9.992e-6, 1, timing_seconds=2e-7))
    assert "nox -s collectives -- --some-option" in json.dumps(content)
    assert "Every result was compared with NumPy's in 1 of 1 launches." in items(content["blocks"])[1]
    assert "machines, pooled" not in json.dumps(content)
    pooled = [launch(cell(8, 1e-5), host=HOST | {"name": name}) for name in ("here", "there")]
    assert ["machines, pooled", "here, there"] in content_of(*pooled)["blocks"][-1]["rows"]
    assert any(each.endswith("shortest call: amber 200 ns, 2.00 %.") for each in items(content["blocks"]))


# The figures


def test_every_launch_and_median_is_a_mark_where_its_tip_says(usual):
    marks = read(usual[2].encode())
    assert sum("a launch, time, µs" in mark.tip for mark in marks) == 6 * len(SIZES)
    for mark in marks:
        value = number_in(mark.tip.get("time, µs") or mark.tip["a launch, time, µs"])
        xs, values = zip(*mark.points, strict=True)
        assert all(math.isclose(each, number_in(mark.tip["size, B"]), rel_tol=0.07) for each in xs), mark
        assert 0.99 * min(values) <= value <= 1.01 * max(values), mark
    assert {"amber", "8", "1 Ki", "128 Ki", "1 Mi", "95 % interval of the median"} <= {*words(usual[2])}


def test_of_algorithms_by_hand_the_report_draws_who_sends_what_when(usual):
    failed = launch(library="binomial_tree", status="failed", reason="It broke.")
    content, drawings = composed(*launches("ring", 1e-5), *launches("amber", 1e-5), failed)
    assert "Who sends what when" in headings(content["blocks"])
    for name in ("messages.svg", "narrow-messages.svg"):
        assert {"ring: 1/4"} == {mark.panel for mark in read(drawings[name]())}
    assert "Who sends what when" not in headings(usual[0]["blocks"])
