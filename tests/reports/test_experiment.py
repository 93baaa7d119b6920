"""The report of an experiment, on records made by hand: collectives, and a session of matrix products."""

import io

import pytest
from msgspec import structs
from rich.console import Console

from common.errors import UserError
from common.laboratory import collectives, faults, matrix_products
from common.observations import display, table
from common.observations.display import Display, Measure, Observed, Table
from common.records.collective_times import Cell, CollectivesRecord
from common.records.files import read_records, write_record
from common.records.training import Record
from common.sessions import experiment as engine
from common.sessions.experiment import observed_of
from reports import experiment
from reports.blocks import DASH, Block, Drawings
from reports.tables.results import Origin
from tests.common.laboratory.collective_records import cell, record, taking
from tests.common.records import matrix_records
from tests.common.records.recoveries import RESTARTED, write_session
from tests.reports.pieces import answers, first, headings, items, marks_of, rows_of, words
from tests.reports.records import HOST, make_record

SIZES = (8, 1024, 131_072, 1_048_576)
HERE = "2 ranks, cpu, float32"
ALL_REDUCE = f"all_reduce, {HERE}"
COMMAND = "nox -s collectives -- --some-option 3 --repetitions 5 --order-seed 7"


def launches(library: str, latency: float, n: int = 6, factors: tuple[int, int] = (1, 1), **fields: object) -> list:
    """n launches whose sizes take `latency` and a microsecond for each 1000 bytes, and 1 % more in each round.

    In odd rounds they take so many times as long as the first of `factors` says, in even ones as the second.
    """
    found = []
    for place in range(n):
        factor = (1 + place / 100) * factors[place % 2]
        cells = []
        for size in SIZES:
            # The second rank begins each of two calls 2 us after the first.
            calls = [(start, start + 2e-6 + (latency + 1e-9 * size) * factor) for start in (0.0, 1.0)]
            counted = {"sent_bytes": 2.02 * size, "formula_bytes": 2.0 * size, "processor_seconds": 1e-6}
            cells.append(cell(size, calls, late=2e-6, **counted))
        found.append(record(*cells, library=library, repetition=place + 1, **fields))
    return found


def composed(*records: CollectivesRecord) -> tuple[list[Block], Drawings]:
    found = observed_of(collectives.EXPERIMENT, {f"{place:02d}": each for place, each in enumerate(records)})
    content, drawings = experiment.compose(found, records, Origin(COMMAND))
    return content["blocks"], drawings


def said_of(*records: CollectivesRecord) -> list[Block]:
    return composed(*records)[0]


@pytest.fixture
def concluded(tmp_path, monkeypatch):
    """What is printed where a session that left these records is concluded in the temporary folder."""
    # In this process, which saves the start of another one.
    monkeypatch.setattr(engine, "report", lambda module, folder, out: experiment.write_report(folder, out) or 0)

    def conclude(told, records, out=tmp_path / "out" / "report.pdf"):
        for name, each in records.items():
            write_record(tmp_path / f"{name}.json", each)
        console = Console(file=io.StringIO(), width=200)
        assert engine.conclude(console, told, tmp_path, out) == 0
        return console.file.getvalue()

    return conclude


def test_a_folder_of_records_becomes_a_pdf_and_a_page_with_every_library(concluded, tmp_path, capsys):
    gone = record(library="cobalt", status="unsupported", reason="It has *no* #GPU.", host={}, versions={})
    records = [*launches("amber", 1e-5, 2), *launches("teal", 2e-5, 2), gone]
    printed = concluded(collectives.EXPERIMENT, {f"{place:02d}": each for place, each in enumerate(records)})
    out = tmp_path / "out" / "report.pdf"
    assert out.read_bytes().startswith(b"%PDF-")
    page = out.with_suffix(".html").read_text()
    assert all(f"The library {name}" in page for name in ("amber", "teal", "cobalt"))
    assert "It has *no* #GPU." in page
    assert "5 records" in capsys.readouterr().out
    assert "5 launches: 4 ok, 1 unsupported, 0 failed." in printed
    # The terminal has the same rows as the report.
    for row in rows_of(said_of(*records), ALL_REDUCE):
        assert all(cell in printed for cell in row.values())


@pytest.mark.usefixtures("undrawn")
def test_what_is_kept_is_read_back_as_it_was_found(concluded, tmp_path):
    gone = record(library="NA", status="unsupported", reason="It ended.")
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
    assert {"naive", "rows over mpi, 2 workers", "16", "128"} <= {*words((tmp_path / "picture.svg").read_text())}
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
    _, drawings = experiment.compose(display.read(tmp_path), [make_record()], Origin(""))
    marks = marks_of(drawings["courses.svg"]())
    assert [mark.tip["launch"] for mark in marks] == ["some-kill-01", "some-kill-02", "some-kill-03"]
    # It goes on from step 150 in the second attempt.
    reached = sorted((moment.seconds, moment.step) for moment in RESTARTED.moments if moment.rank == 0)
    assert marks[0].points == [pytest.approx(place, abs=0.5) for place in reached]


@pytest.mark.usefixtures("undrawn")
def test_a_folder_that_was_never_concluded_or_has_damaged_observations_is_one_line(concluded, tmp_path):
    with pytest.raises(UserError, match=r"holds no observations: give it to its own session, as `-- --again"):
        experiment.write_report(tmp_path, tmp_path / "report.pdf")
    concluded(collectives.EXPERIMENT, {"00": record(taking(1e-5))})
    (tmp_path / display.OBSERVED).write_bytes(b"series,x\namber,8\n")
    with pytest.raises(UserError, match=r"The observations in .+ can't be read .+ its own session with --again"):
        experiment.write_report(tmp_path, tmp_path / "report.pdf")


def test_the_first_page_says_which_library_is_in_front_at_every_size_and_how_sure_that_is():
    blocks = said_of(*launches("amber", 1.2e-5), *launches("teal", 2e-5))
    # The medians of 1.00 to 1.05 times 12.008 us and so on; at the largest size they are alike to within 5 %.
    assert first(blocks, "table")["rows"] == [
        ["all_reduce", HERE, "amber *\n12.3", "amber *\n13.3", "amber *\n147", "amber =\n1,087"],
    ]
    assert first(blocks, "table")["columns"] == ["of", "in", "8 B", "1 KiB", "128 KiB", "1 MiB"]
    assert first(blocks, "headline")["text"] == (
        "amber is in front in 4 of 4 cases: the fastest in 3, equivalent to the fastest in 1."
    )
    launched, tested, _, complete = answers(blocks)["How sure"]
    assert launched.startswith("Launches of fresh processes: n = 6 each. Rounds in shuffled order: 6.")
    assert tested.startswith("Tests: paired t within rounds")
    assert complete.startswith("Nothing is missing")
    assert answers(blocks)["What next"] == ["nox -s collectives -- --help: lists what else can be measured."]


def test_a_library_that_cannot_be_told_from_another_leads_with_a_question_mark():
    blocks = said_of(*launches("amber", 1e-5, factors=(3, 1)), *launches("teal", 1e-5, factors=(1, 3)))
    [row] = first(blocks, "table")["rows"]
    assert {name.partition("\n")[0][-1] for name in row[2:]} == {"?"}
    assert first(blocks, "headline")["text"] == "None is shown to be the fastest in any of 4 cases."
    assert "8 of 8 intervals are wider than 10 % of their median" in " ".join(answers(blocks)["How sure"])
    # With the options of the session, but for its own repetitions and order.
    again = "nox -s collectives -- --some-option 3 --repetitions 12: twice as many"
    assert answers(blocks)["What next"][0].startswith(again)


def test_fewer_than_six_launches_tell_nothing_and_have_no_intervals():
    blocks = said_of(*launches("amber", 1e-5, 5), *launches("teal", 2e-5, 5))
    assert first(blocks, "table")["rows"][0][2] == "amber\n10.2"
    assert first(blocks, "headline")["text"] == "No two share rounds enough to say which is faster."
    assert "No test: that takes 6 rounds." in answers(blocks)["How sure"]
    assert answers(blocks)["What next"][0].startswith("nox -s collectives -- --some-option 3 --repetitions 6: ")
    assert {row["95 %"] for row in rows_of(blocks, ALL_REDUCE)} == {DASH}
    assert "(" not in rows_of(blocks, "Latency and bandwidth")[0]["alpha, µs"]


def test_what_is_missing_is_counted_by_its_reason_and_what_failed_can_be_repeated():
    gone = [record(library="teal", repetition=number, status="failed", reason="It ended.") for number in (1, 2)]
    reasons = {"cobalt": "It has no GPU.", "ochre": "It isn't installed."}
    gone += [record(library=name, status="unsupported", reason=reason) for name, reason in reasons.items()]
    told = answers(said_of(*launches("amber", 1.2e-5), *gone))
    assert told["How sure"][-3:] == [
        "Failed: 2 launches of teal. It ended.",
        "Unsupported: 1 launch of cobalt. It has no GPU.",
        "More reasons, in \u201cWhat isn't there\u201d: 1.",
    ]
    assert told["What next"][0].startswith(f"{COMMAND}: measures again.")


def test_series_with_a_base_stand_on_the_first_page_with_how_many_times_as_fast_they_are():
    records = matrix_records.session(6, {"alone": {64: 0.001, 128: 0.008}, "rows_mpi": {64: 0.002, 128: 0.004}})
    records["rows_mpi-06"] = structs.replace(records["rows_mpi-06"], oversubscribed=True)
    content, _ = experiment.compose(observed_of(matrix_products.EXPERIMENT, records), [], Origin(""))
    [[name, slower, faster]] = first(content["blocks"], "table")["rows"]
    assert (name, slower[:4], faster[:4]) == ("rows over mpi, 2 workers†", "0.50", "2.00")


@pytest.mark.parametrize(("width", "rows"), [(30, 56), (31, 28)])
def test_a_table_alone_fills_the_first_page_and_says_where_the_other_rows_are(width, rows):
    marks = Table(title="Marks", columns=["file"], rows=[["a" * width]] * 90, kept_in="marks.csv")
    shown = Display(
        title="t", contender="file", series=[], measures=[Measure(name="none", label="none")], tables=[marks]
    )
    content, _ = experiment.compose(Observed(*table.tables(()), shown), [], Origin(""))
    alone = first(content["blocks"], "table")
    assert len(alone["rows"]) == rows
    assert f"The first {rows} of 90 rows: the HTML page and marks.csv have {90 - rows} more." in alone["notes"]
    assert [len(block["rows"]) for block in content["blocks"] if block["kind"] == "data"] == [90]


def test_the_tables_have_each_size_with_its_interval_bandwidths_and_bytes_and_say_what_columns_mean():
    usual = said_of(*launches("amber", 1e-5))
    rows = rows_of(usual, ALL_REDUCE)
    assert len(rows) == len(SIZES)
    assert [rows[0][name] for name in ("size, B", "n", "time, µs", "95 %")] == ["8", "6", "10.3", "10.0 to 10.5"]
    # 1,048,576 bytes in 1,058.576 us and up to 5 % more; of two ranks the bus carries as much.
    assert (rows[-1]["algbw, MB/s"], rows[-1]["busbw, MB/s"]) == ("966", "966")
    assert (rows[-1]["arrival, µs"], rows[-1]["sent, B/rank"]) == ("2.00", "1,059,062")
    assert (rows[-1]["by formula, B/rank"], rows[-1]["CPU, ns/B"]) == ("1,048,576", "0.000954")
    assert rows_of(usual, "Algorithms")[0]["all ranks send"] == "2 (N - 1) S"
    [fit] = rows_of(usual, "Latency and bandwidth")
    assert (fit["from, B"], fit["to, B"], fit["alpha, µs"][:9]) == ("8", "1,048,576", "10.3 (10.")
    folded = first(usual, "data")
    meanings = dict(zip(folded["columns"], folded["meanings"], strict=True))
    assert (folded["name"], meanings["n"]) == (ALL_REDUCE, "launches")
    assert meanings["busbw, MB/s"] == "algbw times a factor of the collective and the ranks"
    # Small tables are printed.
    assert {"Libraries", "Algorithms"} <= {*headings(usual, 2)}


def test_oversubscribed_libraries_have_a_dagger_and_are_not_compared():
    oversubscribed = launches("teal", 2e-5, oversubscribed=True)
    assert first(said_of(*oversubscribed), "table")["rows"][0][2] == "teal†\n20.5"
    blocks = said_of(*launches("amber", 1e-5), *oversubscribed)
    assert first(blocks, "table")["rows"][0][2] == "amber\n10.3"
    assert {row["library"] for row in rows_of(blocks, ALL_REDUCE)} == {"amber", "teal†"}


def test_what_is_not_there_has_its_reason_and_where_nothing_is_that_is_the_answer():
    gone = [Cell(collective="gather", size_bytes=size, status="unsupported", reason="It has none.") for size in (8, 16)]
    blocks = said_of(record(*gone), record(library="teal", status="failed", reason="It ended."))
    assert first(blocks, "text")["text"] == "What isn't there:"
    assert sorted(first(blocks, "table")["rows"]) == [
        ["amber", "gather", HERE, "8 to 16", "unsupported", "1", "It has none."],
        ["teal", "all", HERE, DASH, "failed", "1", "It ended."],
    ]
    assert first(blocks, "headline")["text"] == "No launch measured anything."


def test_the_line_that_repeats_it_what_timing_costs_and_which_machines_were_pooled_are_there():
    own = launches("amber", 9.992e-6, 1, timing_seconds=2e-7)
    blocks = said_of(*own)
    assert ["to repeat it", COMMAND] in blocks[-1]["rows"]
    assert "Every result was compared with NumPy's in 1 of 1 launches." in items(blocks)[0]
    assert any(each.endswith("shortest call: amber 200 ns, 2.00 %.") for each in answers(blocks)["How sure"])
    pooled = said_of(*own, record(taking(1e-5), host=HOST | {"name": "there"}))[-1]["rows"]
    assert ["machines, pooled", "here, there"] in pooled
    assert "machines, pooled" not in dict(blocks[-1]["rows"])


def test_every_launch_is_a_mark_and_a_median_stands_where_its_tip_says():
    [draw] = composed(*launches("amber", 1e-5))[1].values()
    marks = marks_of(draw())
    assert sum("launch (n = 1)" in mark.tip for mark in marks) == 6 * len(SIZES)
    medians = [mark for mark in marks if "95 % interval" in mark.tip and len(mark.points) == 1]
    assert {mark.tip["time, µs"]: round(mark.points[0][1], 1) for mark in medians}["10.3"] == 10.3


def test_of_algorithms_by_hand_the_report_draws_who_sends_what_when():
    failed = record(library="binomial_tree", status="failed", reason="It broke.")
    blocks, drawings = composed(*launches("ring", 1e-5), *launches("amber", 1e-5), failed)
    assert "Who sends what when" in headings(blocks)
    assert {"ring: 1/4"} == {mark.panel for mark in marks_of(drawings["messages.svg"]())}
    assert "Who sends what when" not in headings(said_of(*launches("amber", 1e-5)))
