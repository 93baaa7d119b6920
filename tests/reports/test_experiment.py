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
from common.observations import display, table
from common.observations.display import Display, Measure, Observed, Table
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
from tests.reports.pieces import answers, headings, items, rows_of, words
from tests.reports.records import HOST, make_record

SIZES = (8, 1024, 131_072, 1_048_576)
HERE = "2 ranks, cpu, float32"
ALL_REDUCE = f"all_reduce, {HERE}"
COMMAND = "nox -s collectives -- --some-option 3 --repetitions 5 --order-seed 7"


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
    return experiment.compose(found, records, Origin(COMMAND))


def content_of(*records: CollectivesRecord) -> dict:
    return composed(*records)[0]


def leading(content: dict) -> list[list[str]]:
    """The rows of the first page's table."""
    return next(block for block in content["blocks"] if block["kind"] == "table")["rows"]


def headline(content: dict) -> str:
    return next(block["text"] for block in content["blocks"] if block["kind"] == "headline")


def certainty(content: dict) -> list[str]:
    return answers(content["blocks"])["How sure"]


def next_steps(content: dict) -> list[str]:
    return answers(content["blocks"])["What next"]


def uneven(library: str) -> list[CollectivesRecord]:
    """Six launches of a library, in every other of which all takes three times as long."""
    return [
        launch(
            *(cell(size, 1e-5 * (3 if n % 2 else 1) * (1 + n / 1000)) for size in SIZES), library=library, repetition=n
        )
        for n in range(1, 7)
    ]


def rows_under(content: dict, heading: str) -> list[dict[str, str]]:
    return rows_of(content["blocks"], heading)


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
    for row in rows_under(content_of(*records), ALL_REDUCE):
        assert all(cell in printed for cell in row.values())


@pytest.mark.usefixtures("undrawn")
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
    assert "Faster than its base: rows over mpi, 2 workers from 128 rows and columns on." in printed
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
    assert "paired t" not in page
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


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(("name", "content"), [(display.OBSERVED, b"series,x\namber,8\n"), (display.DISPLAY, b'"\x00')])
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
        ["all_reduce", HERE, "amber *\n12.3", "amber *\n13.3", "amber *\n147", "amber =\n1,087"],
    ]
    assert headline(content) == "amber is in front in 4 of 4 cases: the fastest in 3, equivalent to the fastest in 1."
    [table, *_] = [block for block in content["blocks"] if block["kind"] == "table"]
    assert table["columns"] == ["of", "in", "8 B", "1 KiB", "128 KiB", "1 MiB"]
    assert [block["kind"] for block in content["blocks"]][:5] == ["headline", "text", "table", "figure", "answers"]
    launched, tested, _, complete = certainty(content)
    assert launched.startswith("Launches of fresh processes: n = 6 each. Rounds in shuffled order: 6.")
    assert tested.startswith("Tests: paired t within rounds")
    assert complete.startswith("Nothing is missing")
    assert next_steps(content) == ["nox -s collectives -- --help: lists what else can be measured."]


def test_a_library_that_cannot_be_told_from_another_leads_with_a_question_mark():
    other = [structs.replace(each, repetition=7 - each.repetition) for each in uneven("teal")]
    content = content_of(*uneven("amber"), *other)
    [row] = leading(content)
    assert {name.partition("\n")[0][-1] for name in row[2:]} == {"?"}
    assert headline(content) == "None is shown to be the fastest in any of 4 cases."
    assert "8 of 8 intervals are wider than 10 % of their median" in " ".join(certainty(content))
    # With the options of the session, but for its own repetitions and order.
    assert next_steps(content)[0].startswith("nox -s collectives -- --some-option 3 --repetitions 12: twice as many")


def test_fewer_than_six_launches_tell_nothing_and_have_no_intervals():
    content = content_of(*launches("amber", 1e-5, 5), *launches("teal", 2e-5, 5))
    assert leading(content)[0][2] == "amber\n10.2"
    assert headline(content) == "No two share rounds enough to say which is faster."
    assert "No test: that takes 6 rounds." in certainty(content)
    assert next_steps(content)[0].startswith("nox -s collectives -- --some-option 3 --repetitions 6: ")
    assert {row["95 %"] for row in rows_under(content, ALL_REDUCE)} == {DASH}
    assert "(" not in rows_under(content, "Latency and bandwidth")[0]["alpha, µs"]


def test_what_is_missing_is_counted_by_its_reason_and_what_failed_can_be_repeated():
    gone = [
        launch(library=name, repetition=n, status=status, reason=reason)
        for name, n, status, reason in (
            ("teal", 1, "failed", "It ended."),
            ("teal", 2, "failed", "It ended."),
            ("cobalt", 1, "unsupported", "It has no GPU."),
            ("ochre", 1, "unsupported", "It isn't installed."),
        )
    ]
    content = content_of(*launches("amber", 1.2e-5), *gone)
    assert certainty(content)[-3:] == [
        "Failed: 2 launches of teal. It ended.",
        "Unsupported: 1 launch of cobalt. It has no GPU.",
        "More reasons, in \u201cWhat isn't there\u201d: 1.",
    ]
    assert next_steps(content)[0].startswith(f"{COMMAND}: measures again.")


def test_series_with_a_base_stand_on_the_first_page_with_how_many_times_as_fast_they_are():
    times = {"alone": {64: 0.001, 128: 0.008}, "rows_mpi": {64: 0.002, 128: 0.004}}
    records = matrix_records.session(6, times)
    records["rows_mpi-06"] = structs.replace(records["rows_mpi-06"], oversubscribed=True)
    content, _ = experiment.compose(observed_of(matrix_products.EXPERIMENT, records), [], Origin(""))
    [table, *_] = [block for block in content["blocks"] if block["kind"] == "table"]
    [[name, slower, faster]] = table["rows"]
    assert (name, slower[:4], faster[:4]) == ("rows over mpi, 2 workers†", "0.50", "2.00")


def test_the_first_pages_table_has_its_first_rows_and_the_chapter_of_tables_all():
    kinds = [*("all_reduce", "all_gather", "broadcast", "gather", "scatter")]
    cells = [cell(8, 1e-5, collective=kind) for kind in kinds]
    content = content_of(launch(*cells), launch(*cells, device="a GPU"))
    assert [row[0] for row in leading(content)] == [*kinds, *kinds[:1]]
    whole = rows_under(content, "The library in front and its median time, \N{MICRO SIGN}s, by size, B")
    assert [row["of"] for row in whole] == kinds * 2


@pytest.mark.parametrize(("width", "rows"), [(30, 56), (31, 28)])
def test_a_table_alone_fills_the_first_page_and_says_where_the_other_rows_are(width, rows):
    marks = Table(title="Marks", columns=["file"], rows=[["a" * width]] * 90, kept_in="marks.csv")
    measures = [Measure(name="none", label="none")]
    shown = Display(title="t", contender="file", series=[], measures=measures, tables=[marks])
    content, _ = experiment.compose(Observed(*table.tables(()), shown), [], Origin(""))
    first = next(block for block in content["blocks"] if block["kind"] == "table")
    assert len(first["rows"]) == rows
    assert f"The first {rows} of 90 rows: the HTML page and marks.csv have {90 - rows} more." in first["notes"]


# The tables


def test_small_tables_are_printed_and_others_folded_on_the_page_with_what_their_columns_mean(usual):
    folded = {block["name"]: block for block in usual[0]["blocks"] if block["kind"] == "data"}
    assert {*folded} == {ALL_REDUCE, "Latency and bandwidth"}
    assert {"Libraries", "Algorithms"} <= {*headings(usual[0]["blocks"], 2)}
    assert len(folded[ALL_REDUCE]["rows"]) == len(SIZES)
    meanings = dict(zip(folded[ALL_REDUCE]["columns"], folded[ALL_REDUCE]["meanings"], strict=True))
    assert meanings["busbw, MB/s"] == "algbw times a factor of the collective and the ranks"
    assert meanings["n"] == "launches"


def test_the_tables_have_each_size_with_its_interval_bandwidths_and_bytes(usual):
    rows = rows_under(usual[0], ALL_REDUCE)
    assert [rows[0][name] for name in ("size, B", "n", "time, µs", "95 %")] == ["8", "6", "10.3", "10.0 to 10.5"]
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


def test_oversubscribed_libraries_have_a_dagger_and_are_not_compared():
    oversubscribed = launches("teal", 2e-5, oversubscribed=True)
    assert leading(content_of(*oversubscribed))[0][2] == "teal†\n20.5"
    content = content_of(*launches("amber", 1e-5), *oversubscribed)
    assert leading(content)[0][2] == "amber\n10.3"
    assert {row["library"] for row in rows_under(content, ALL_REDUCE)} == {"amber", "teal†"}
    assert "† more threads than cores" in words(drawn(*oversubscribed))


def test_what_is_not_there_has_its_reason_and_where_nothing_is_that_is_the_answer():
    gone = [Cell(collective="gather", size_bytes=size, status="unsupported", reason="It has none.") for size in (8, 16)]
    content = content_of(launch(*gone), launch(library="teal", status="failed", reason="It ended."))
    assert next(block["text"] for block in content["blocks"] if block["kind"] == "text") == "What isn't there:"
    assert sorted(leading(content)) == [
        ["amber", "gather", HERE, "8 to 16", "unsupported", "1", "It has none."],
        ["teal", "all", HERE, DASH, "failed", "1", "It ended."],
    ]
    assert headline(content) == "No launch measured anything."


def test_the_line_that_repeats_it_and_what_timing_costs_are_there():
    content = content_of(*launches("amber", 9.992e-6, 1, timing_seconds=2e-7))
    assert ["to repeat it", COMMAND] in content["blocks"][-1]["rows"]
    method = items(content["blocks"])
    assert "Every result was compared with NumPy's in 1 of 1 launches." in method[0]
    assert len(method) <= 4
    assert "machines, pooled" not in json.dumps(content)
    pooled = [launch(cell(8, 1e-5), host=HOST | {"name": name}) for name in ("here", "there")]
    assert ["machines, pooled", "here, there"] in content_of(*pooled)["blocks"][-1]["rows"]
    assert any(each.endswith("shortest call: amber 200 ns, 2.00 %.") for each in certainty(content))


# The figures


def test_every_launch_and_median_is_a_mark_where_its_tip_says(usual):
    marks = read(usual[2].encode())
    assert sum("launch (n = 1)" in mark.tip for mark in marks) == 6 * len(SIZES)
    for mark in (mark for mark in marks if "time, µs" in mark.tip):
        value = number_in(mark.tip["time, µs"])
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
