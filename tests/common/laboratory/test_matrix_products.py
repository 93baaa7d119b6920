"""common/laboratory/matrix_products.py: the plan, the launches, what they tell; nothing multiplies."""

import contextlib
import sys

import pytest

from common.declarations.arguments import parse
from common.declarations.catalogue import find_program, ways
from common.declarations.products import Products
from common.laboratory.matrix_products import EXPERIMENT, Scope, launches, moved_bytes
from common.launching import executor, launch
from common.launching.executor import run_planned
from common.measurement import machine
from common.measurement.matrix_calls import declared
from common.observations import display
from common.paths import ROOT
from common.records.files import read_records, write_record
from common.records.matrix_products import MatrixRecord
from common.sessions import experiment
from common.sessions.experiment import observed_of
from tests.changes import changed
from tests.common.records.matrix_records import cell, record, session

QUICK = Scope(sizes=(8, 16), naive_sizes=(4, 8), repetitions=2, iterations=2)


@pytest.fixture
def started(monkeypatch):
    """What was started: the way and its products; `ended` is what comes of it: its status and its log."""
    found, ended = [], {"status": 0, "log": ""}

    def start(arguments, root, log_path, deadline_seconds, variables):
        assert arguments[:2] == ["-m", "common.launching.launch"]
        assert (root, deadline_seconds) == (ROOT, 120.0)
        way, products = find_program(arguments[2]), parse(Products, "help", arguments[3:])
        found.append((way, products))
        log_path.write_text(ended["log"])
        if ended["status"] == 0:
            known = declared(way, products, products.workers) | {"started_at": "2026-01-01T00:00:00.000+00:00"}
            cells = [cell(size, size**3 / 1e9, ranks=products.workers) for size in products.sizes]
            write_record(products.record, MatrixRecord(**known, status="ok", cells=cells))
        return ended["status"]

    monkeypatch.setattr(executor, "start", start)
    monkeypatch.setattr(executor, "python_for", lambda way: sys.executable)
    return found, ended


def said(records):
    """The answer and the sentences beside it."""
    found = observed_of(EXPERIMENT, records)
    return [display.answer(found), *found.display.sentences]


# The plan


def test_every_round_has_every_way_once():
    found = [launches(Scope(), number) for number in range(1, Scope().rounds + 1)]
    assert [sorted(each.way.name for each in own) for own in found] == 6 * [sorted(ways())]
    assert len({each.name for own in found for each in own}) == 6 * len(ways())


def test_the_loop_multiplies_sizes_of_its_own_and_one_process_has_no_workers():
    products = {each.way.kind: each.products for each in launches(QUICK, 1)}
    assert {kind: each.sizes for kind, each in products.items()} == {
        "naive": (4, 8),
        "alone": (8, 16),
        "rows": (8, 16),
        "reduction": (8, 16),
    }
    assert {kind: each.workers for kind, each in products.items()} == {
        "naive": 1,
        "alone": 1,
        "rows": 2,
        "reduction": 2,
    }


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"workers": 1}, "with 1 worker distributes nothing: give it 2 or more."),
        ({"workers": 3}, "3 workers can't share 64 rows evenly: give --sizes that 3 divides."),
        ({"repetitions": 0}, "--repetitions 0: give a whole number above 0."),
        ({"naive_sizes": ()}, "give one or more, all of them whole numbers from 1 to 8192."),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_before_anything_is_started(changes, said, refusal):
    assert refusal(lambda: Scope(**changes)).endswith(said)


@pytest.mark.parametrize("name", ways())
def test_every_way_is_started_as_a_user_would(name):
    way, request, command = launch.prepare([name, "--sizes", "8"])
    assert way.script in command
    assert command[-2:] == ["--workers", "2" if way.is_distributed else "1"]
    assert command[0].endswith({"rows_mpi": "mpirun", "reduction_mpi": "mpirun"}.get(name, command[0]))
    assert request.limits.sizes == (8,)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("alone", ["--workers", "2"], "alone is one process: leave --workers out, or choose another way."),
        ("rows_mpi", ["--workers", "1"], "rows_mpi with 1 worker distributes nothing: give it 2 or more."),
        ("rows_mpi", ["--sizes", "9"], "2 workers can't share 9 rows evenly: give --sizes that 2 divides."),
        ("alone", ["--record", "/proc/nowhere/run.json"], "/proc/nowhere/run.json can't be written"),
    ],
)
def test_what_a_way_cannot_have_is_refused_before_it_starts(name, options, said, refusal):
    assert refusal(lambda: launch.prepare([name, *options])).startswith(said)


def test_without_mpirun_a_launch_over_it_is_refused(monkeypatch, refusal):
    monkeypatch.setattr("shutil.which", lambda *arguments, **options: None)
    assert "There is no mpirun" in refusal(lambda: launch.prepare(["rows_mpi", "--sizes", "8"]))


# The launches


def test_a_launch_leaves_one_record_that_says_which_of_several_it_is(started, tmp_path):
    [planned, *_] = launches(QUICK, 2)
    found = run_planned(planned, tmp_path)
    assert read_records(tmp_path, MatrixRecord) == {planned.name: found}
    assert (found.status, found.repetition, found.log) == ("ok", 2, f"{planned.name}.log")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{planned.name}.json", f"{planned.name}.log"]


@pytest.mark.parametrize(
    ("status", "log", "ended"),
    [
        (1, "lockstep: failed: by rows: 1 of 64 elements is wrong.", ("failed", "by rows: 1 of 64 elements is wrong.")),
        (2, "lockstep: There is no mpirun.", ("unsupported", "There is no mpirun.")),
        (124, "", ("failed", "It was ended by its deadline of 120 s.")),
    ],
)
def test_a_launch_that_leaves_none_gets_one_that_says_why(started, status, log, ended, tmp_path):
    started[1].update(status=status, log=log)
    [planned, *_] = launches(QUICK, 1)
    found = run_planned(planned, tmp_path)
    assert (found.status, found.reason) == ended
    assert read_records(tmp_path, MatrixRecord) == {planned.name: found}
    assert found.cells == []


@pytest.fixture
def no_report(monkeypatch):
    """Nobody writes the report."""
    monkeypatch.setattr(experiment, "report", lambda *_: 0)


def run(monkeypatch, *arguments):
    """Exit status of the program; it measures nothing, so others may meanwhile."""
    monkeypatch.setattr(machine, "alone", contextlib.nullcontext)
    monkeypatch.setattr(machine, "git_commit", lambda: None)
    monkeypatch.setattr(sys, "argv", ["matrix_products", *arguments])
    with pytest.raises(SystemExit) as ending:
        experiment.run(EXPERIMENT)
    return ending.value.code


def test_a_session_goes_on_where_it_was_interrupted(started, no_report, monkeypatch, tmp_path, capsys):
    options = ["--sizes", "8", "--repetitions", "2", "--results", str(tmp_path), "--out", str(tmp_path / "p.svg")]
    found, ended = started
    ended.update(status=1)
    assert run(monkeypatch, *options) == 1
    [folder] = tmp_path.glob("*-matrix_products")
    (folder / "finished").unlink()
    ended.update(status=0)
    [kept, *_] = sorted(folder.glob("*.json"))
    write_record(kept, changed(read_records(folder, MatrixRecord)[kept.stem], status="ok"))
    found.clear()
    assert run(monkeypatch, *options) == 0
    assert len(found) == 2 * len(ways()) - 1
    assert {record.status for record in read_records(folder, MatrixRecord).values()} == {"ok"}
    assert "nox -s matrix_products -- --sizes 8 --repetitions 2" in (folder / "command.txt").read_text()
    assert f"{2 * len(ways())} launches: {2 * len(ways())} ok" in capsys.readouterr().out


# What it tells

ALONE = {64: 0.001, 128: 0.008, 256: 0.064}


def shared(times, launches=6):
    """The answer and the sentence on a way with these times, beside one process with those of `ALONE`."""
    answer, sentence, *_ = said(session(launches, {"alone": ALONE, "rows_mpi": times}))
    return answer, sentence


def test_six_rounds_tell_from_which_size_it_pays_the_ratio_there_and_what_takes_longest():
    answer, sentence = shared({64: 0.004, 128: 0.006, 256: 0.04})
    assert answer == "Sharing a product pays: rows over mpi, 2 workers from size 128 on."
    assert sentence.startswith(
        "rows over mpi, 2 workers: it pays by its own interval from size 128 on (1.33 times as fast as alone at 128, "
    )
    assert sentence.endswith("n = 6). Its longest part is product (100 % at size 64) and product (100 % at size 256).")


def test_where_it_pays_nowhere_the_largest_size_is_told():
    answer, sentence = shared({64: 0.004, 128: 0.016, 256: 0.128})
    assert answer == "Sharing a product pays: rows over mpi, 2 workers at no measured size."
    assert "it pays by its own interval at no measured size (0.50 times as fast as alone at 256, " in sentence


def test_fewer_rounds_tell_nothing():
    answer, sentence = shared({64: 0.0001, 128: 0.0001, 256: 0.0001}, launches=5)
    assert answer == "Sharing a product pays: rows over mpi, 2 workers takes 6 rounds to tell."
    assert "5 rounds, and it takes 6 to tell" in sentence


def test_what_has_no_base_is_not_judged():
    answer, sentence = said(session(6, {"rows_mpi": ALONE}))
    assert answer == "No two share rounds enough to say which is faster."
    assert "nothing to compare it with was measured" in sentence


def test_another_part_may_take_longest_at_another_size():
    cells = [cell(64, 1.0, ranks=2), cell(256, 1.0, ranks=2)]
    for own, first in zip(cells, (0.9, 0.2), strict=True):
        own.parts[:], own.moments_seconds[0][:] = ["scatter", "product"], [[0.0, first, 1.0]] * 3
    sentence = said({"one": record("rows_mpi", {64: 1.0, 256: 1.0}, cells=cells)})[-1]
    assert sentence.endswith("Its longest part is scatter (90 % at size 64) and product (80 % at size 256).")


def test_both_ways_move_the_same_bytes_at_least_and_the_operations_for_each_grow():
    for size, workers in ((64, 2), (96, 3), (64, 4)):
        matrix, others = 4 * size**2, workers - 1
        by_rows = others / workers * matrix + others * matrix + others / workers * matrix
        by_reduction = 2 * others / workers * matrix + others * matrix
        assert moved_bytes(size, workers) == pytest.approx(by_rows) == pytest.approx(by_reduction)
    # 2 n^3 / (8 n^2) with two workers.
    sentences = said(session(6, {"alone": ALONE, "rows_mpi": ALONE}))
    assert "16 and 64 operations for each byte at size 64 and 256" in sentences[-1]


def test_the_loop_and_one_process_tell_how_time_grows():
    found = observed_of(EXPERIMENT, session(6, {"naive": {16: 1.0, 32: 8.0}, "alone": ALONE, "rows_mpi": ALONE}))
    [table] = display.growth_tables(found)
    assert sorted(table.rows) == [["alone", "3.00", "3.00 to 3.00"], ["naive", "3.00", "3.00 to 3.00"]]
