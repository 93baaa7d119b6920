"""common/laboratory/matrix_products.py: the plan, the launches, what they tell; nothing multiplies."""

import sys

import pytest

from common.declarations.arguments import parse
from common.declarations.catalogue import find_program, ways
from common.declarations.products import Products
from common.laboratory.matrix_products import EXPERIMENT, Scope, launches, moved_bytes
from common.launching import executor, launch
from common.launching.executor import run_planned
from common.measurement.matrix_calls import declared
from common.observations import display
from common.paths import ROOT
from common.records.files import read_records, write_record
from common.records.matrix_products import MatrixRecord
from common.sessions.experiment import observed_of
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
    """The answer, and how the numbers came about."""
    found = observed_of(EXPERIMENT, records)
    return display.answer(found), found.display.method


# The plan


def test_every_round_has_every_way_once():
    found = [launches(Scope(), number) for number in range(1, Scope().repetitions + 1)]
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
        ({"workers": 3}, "3 workers can't share 64 rows evenly: give --sizes that 3 divides."),
        ({"naive_sizes": ()}, "give one or more, all of them whole numbers from 1 to 8192."),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_before_anything_is_started(changes, said, refusal):
    assert refusal(lambda: Scope(**changes)).endswith(said)


def test_what_a_way_cannot_have_is_refused_before_it_starts(refusal):
    said = refusal(lambda: launch.prepare(["alone", "--workers", "2"]))
    assert said == "alone is one process: leave --workers out, or choose another way."


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


# What it tells

ALONE = {64: 0.001, 128: 0.008, 256: 0.064}


@pytest.mark.parametrize(
    ("times", "rounds", "told"),
    [
        ({64: 0.004, 128: 0.006, 256: 0.04}, 6, "from 128 rows and columns on"),
        ({64: 0.004, 128: 0.016, 256: 0.128}, 6, "nowhere"),
        ({64: 0.0001, 128: 0.0001, 256: 0.0001}, 5, "takes 6 rounds to tell"),
    ],
)
def test_six_rounds_tell_from_which_size_on_it_pays(times, rounds, told):
    answer, _ = said(session(rounds, {"alone": ALONE, "rows_mpi": times}))
    assert answer == f"Faster than its base: rows over mpi, 2 workers {told}."


def test_what_has_no_base_is_not_judged():
    assert said(session(6, {"rows_mpi": ALONE}))[0] == "No two share rounds enough to say which is faster."


def test_the_parts_of_a_product_stand_beside_its_time_at_each_size():
    cells = [cell(64, 1.0, ranks=2), cell(256, 1.0, ranks=2)]
    for own, first in zip(cells, (0.9, 0.2), strict=True):
        own.parts[:], own.moments_seconds[0][:] = ["scatter", "product"], [[0.0, first, 1.0]] * 3
    found = observed_of(EXPERIMENT, {"one": record("rows_mpi", {64: 1.0, 256: 1.0}, cells=cells)})
    [table] = display.value_tables(found)
    assert [row[-1] for row in table.rows] == ["scatter 90, product 10", "scatter 20, product 80"]


def test_both_ways_move_the_same_bytes_at_least_and_the_operations_for_each_grow():
    for size, workers in ((64, 2), (96, 3), (64, 4)):
        matrix, others = 4 * size**2, workers - 1
        by_rows = others / workers * matrix + others * matrix + others / workers * matrix
        by_reduction = 2 * others / workers * matrix + others * matrix
        assert moved_bytes(size, workers) == pytest.approx(by_rows) == pytest.approx(by_reduction)
    # 2 n^3 / (8 n^2) with two workers.
    _, method = said(session(6, {"alone": ALONE, "rows_mpi": ALONE}))
    assert "16 and 64 operations for each byte at size 64 and 256" in method[-1]


def test_the_loop_and_one_process_tell_how_time_grows():
    found = observed_of(EXPERIMENT, session(6, {"naive": {16: 1.0, 32: 8.0}, "alone": ALONE, "rows_mpi": ALONE}))
    [table] = display.growth_tables(found)
    assert sorted(table.rows) == [["alone", "3.00", "3.00 to 3.00"], ["naive", "3.00", "3.00 to 3.00"]]
