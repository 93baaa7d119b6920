"""common/laboratory/matrix_products.py: the plan, the launches, what they tell; nothing multiplies."""

import pytest

from common.declarations.arguments import parse
from common.declarations.catalogue import ways
from common.declarations.products import Products
from common.laboratory.matrix_products import EXPERIMENT, Scope, launches, moved_bytes
from common.launching.exit_cause import Ended
from common.observations import display
from common.records.files import read_records, write_record
from common.records.matrix_products import MatrixRecord
from common.sessions.experiment import observed_of
from tests.common.records.matrix_records import cell, record, session

QUICK = Scope(sizes=(8, 16), naive_sizes=(4, 8), repetitions=2, iterations=2)


def test_every_round_has_every_way_once():
    found = [launches(Scope(), number) for number in range(1, Scope().repetitions + 1)]
    assert [sorted(each.way.name for each in own) for own in found] == 6 * [sorted(ways())]
    assert len({each.name for own in found for each in own}) == 6 * len(ways())


def test_the_loop_multiplies_sizes_of_its_own_and_one_process_has_no_workers():
    assert {each.way.kind: (each.products.sizes, each.products.workers) for each in launches(QUICK, 1)} == {
        "naive": ((4, 8), 1),
        "alone": ((8, 16), 1),
        "rows": ((8, 16), 2),
        "reduction": ((8, 16), 2),
    }


@pytest.mark.parametrize("ended", [Ended("ok", None), Ended("failed", "A product was wrong.")])
def test_a_launch_leaves_one_record_that_says_which_of_several_it_is_and_how_it_ended(ended, tmp_path):
    [planned] = [each for each in launches(QUICK, 2) if each.way.name == "naive"]
    asked = planned.job(tmp_path)
    products = parse(Products, "help", asked.arguments)
    assert products == asked.workload
    if ended.status == "ok":
        left = record("naive", {4: 0.001, 8: 0.002}, products=products)
        write_record(products.record, left)
    found = planned.record(tmp_path, ended, "2026-01-01T00:00:00.000+00:00")
    assert read_records(tmp_path, MatrixRecord) == {planned.name: found}
    assert [path.name for path in tmp_path.iterdir()] == [f"{planned.name}.json"]
    assert (found.way, found.products.sizes) == ("naive", (4, 8))
    assert (found.status, found.reason) == (ended.status, ended.reason)
    assert (found.repetition, found.log) == (2, f"{planned.name}.log")
    assert [each.size for each in found.cells] == ([4, 8] if ended.status == "ok" else [])


ALONE = {64: 0.001, 128: 0.008, 256: 0.064}


def test_fewer_than_six_rounds_beside_one_process_do_not_tell_from_which_size_on_it_pays():
    found = observed_of(EXPERIMENT, session(5, {"alone": ALONE, "rows_mpi": {64: 0.004, 128: 0.006, 256: 0.04}}))
    assert display.answer(found) == "Faster than its base: rows over mpi, 2 workers takes 6 rounds to tell."


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
    found = observed_of(EXPERIMENT, session(6, {"alone": ALONE, "rows_mpi": ALONE}))
    assert "16 and 64 operations for each byte at size 64 and 256" in found.display.method[-1]


def test_the_loop_and_one_process_tell_how_time_grows():
    found = observed_of(EXPERIMENT, session(6, {"naive": {16: 1.0, 32: 8.0}, "alone": ALONE, "rows_mpi": ALONE}))
    [table] = display.growth_tables(found)
    assert sorted(table.rows) == [["alone", "3.00", "3.00 to 3.00"], ["naive", "3.00", "3.00 to 3.00"]]
