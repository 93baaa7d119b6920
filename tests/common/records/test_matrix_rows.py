"""common/records/matrix_rows.py: from which size distributing pays, and how time grows, on made-up records."""

import math

import pytest

from common.records import matrix_rows
from common.records.matrix_rows import exponent, pays_from, rows
from tests.common.records.matrix_records import cell, record, session

ALONE = {64: 0.001, 128: 0.008, 256: 0.064}


def of(records, way):
    return [row for row in rows(records) if row.way == way]


def shared(times, launches=6):
    """The rows of a way with these times, beside one process with those of `ALONE`."""
    return of(session(launches, {"alone": ALONE, "rows_mpi": times}), "rows_mpi")


# What a product takes


def test_a_row_is_the_median_over_the_launches_beside_what_its_base_takes():
    found = [record("alone", {64: seconds}, place) for place, seconds in enumerate((0.3, 0.1, 0.2), start=1)]
    found += [record("rows_mpi", {64: 2 * seconds}, place) for place, seconds in enumerate((0.3, 0.1, 0.2), start=1)]
    [row] = of({str(place): each for place, each in enumerate(found)}, "rows_mpi")
    assert row.launch_seconds == pytest.approx({1: 0.6, 2: 0.2, 3: 0.4})
    assert (row.seconds.median, row.base_seconds.median) == pytest.approx((0.4, 0.2))
    # Each round's pair has the same ratio, however long the round's launches took.
    assert row.judgement.ratio == pytest.approx(0.5)


def test_shares_are_means_over_the_launches():
    parts = [cell(64, 1.0, ranks=2, parts=("scatter", "product")), cell(64, 1.0, ranks=2, parts=("scatter", "product"))]
    parts[1].moments_seconds[0][:] = [[0.0, 0.1, 1.0]] * 3
    found = {str(place): record("rows_mpi", {64: 1.0}, place, cells=[own]) for place, own in enumerate(parts, start=1)}
    [row] = rows(found)
    assert row.shares == pytest.approx({"scatter": 0.3, "product": 0.7})
    assert row.judgement is None


def test_launches_are_paired_within_their_rounds():
    found = [record("alone", {64: 1.0 * place}, place) for place in (1, 2, 3)]
    found += [record("rows_mpi", {64: 0.5 * place}, place) for place in (2, 3, 4)]
    [row] = of({str(place): each for place, each in enumerate(found)}, "rows_mpi")
    assert (row.judgement.n, row.judgement.ratio) == (2, pytest.approx(2.0))


def test_more_ways_beside_one_another_make_an_interval_wider():
    times = {size: seconds / 1.5 for size, seconds in ALONE.items()}
    [alone, *_] = of(session(6, {"alone": ALONE, "rows_mpi": times}), "rows_mpi")
    several = {"alone": ALONE, "rows_mpi": times, "rows_gloo": times, "reduction_mpi": times}
    [beside, *_] = of(session(6, several), "rows_mpi")
    assert beside.judgement.low < alone.judgement.low
    assert beside.judgement.ratio == pytest.approx(alone.judgement.ratio)


# From which size it pays


def test_it_pays_from_the_smallest_size_at_and_above_which_the_whole_interval_is_above_one():
    assert pays_from(shared({64: 0.004, 128: 0.006, 256: 0.04})) == 128
    assert pays_from(shared({64: 0.0005, 128: 0.006, 256: 0.04})) == 64


def test_a_size_that_pays_below_one_that_does_not_counts_for_nothing():
    assert pays_from(shared({64: 0.0005, 128: 0.009, 256: 0.04})) == 256
    assert pays_from(shared({64: 0.0005, 128: 0.004, 256: 0.07})) is None


def test_a_ratio_whose_interval_reaches_one_is_not_sure():
    found = session(6, {"alone": {256: 1.0}}, drift=0.0)
    for repetition, seconds in enumerate((0.9, 1.1, 0.8, 1.0, 0.85, 1.05), start=1):
        found[f"rows_mpi-{repetition}"] = record("rows_mpi", {256: seconds}, repetition)
    [row] = of(found, "rows_mpi")
    assert row.judgement.ratio > 1 > row.judgement.low
    assert pays_from([row]) is None


def test_five_rounds_have_no_interval_and_tell_nothing():
    found = shared({64: 0.0005, 128: 0.004, 256: 0.03}, launches=5)
    assert pays_from(found) is None
    assert all(math.isnan(row.judgement.low) for row in found)
    assert found[0].seconds.low is None
    assert "5 rounds, and it takes 6 to tell" in matrix_rows.verdict_in_words(found)


def test_the_verdict_says_the_size_the_ratio_there_and_what_takes_longest():
    said = matrix_rows.verdict_in_words(shared({64: 0.004, 128: 0.006, 256: 0.04}))
    assert said.startswith(
        "rows over mpi, 2 workers: it pays by its own interval from size 128 on (1.33 times as fast as alone at 128, "
    )
    assert said.endswith("n = 6). Its longest part is product: 100 % at size 64, 100 % at size 256.")


def test_the_verdict_says_where_another_part_takes_longest():
    cells = [cell(64, 1.0, ranks=2), cell(256, 1.0, ranks=2)]
    for own, first in zip(cells, (0.9, 0.2), strict=True):
        own.parts[:], own.moments_seconds[0][:] = ["scatter", "product"], [[0.0, first, 1.0]] * 3
    said = matrix_rows.verdict_in_words(rows({"one": record("rows_mpi", {64: 1.0, 256: 1.0}, cells=cells)}))
    assert "nothing to compare it with was measured" in said
    alone = record("alone", {64: 1.0, 256: 1.0})
    found = of({"one": record("rows_mpi", {64: 1.0, 256: 1.0}, cells=cells), "two": alone}, "rows_mpi")
    said = matrix_rows.verdict_in_words(found)
    assert said.endswith("Its longest part is scatter (90 % at size 64) and product (80 % at size 256).")


def test_the_verdict_says_that_it_pays_nowhere():
    said = matrix_rows.verdict_in_words(shared({64: 0.004, 128: 0.016, 256: 0.128}))
    assert "it pays by its own interval at no measured size (0.50 times as fast as alone at 256, " in said


def test_what_has_no_base_is_not_judged():
    found = rows(session(6, {"rows_mpi": ALONE}))
    assert "nothing to compare it with was measured" in matrix_rows.verdict_in_words(found)
    assert pays_from(found) is None
    assert matrix_rows.growth_in_words(found) == []


# Why


def test_both_ways_move_the_same_bytes_at_least():
    for size, workers in ((64, 2), (96, 3), (64, 4)):
        matrix, others = 4 * size**2, workers - 1
        by_rows = others / workers * matrix + others * matrix + others / workers * matrix
        by_reduction = 2 * others / workers * matrix + others * matrix
        assert matrix_rows.moved_bytes(size, workers) == pytest.approx(by_rows) == pytest.approx(by_reduction)


def test_the_operations_for_each_byte_grow_with_the_size():
    [said] = matrix_rows.growth_in_words(shared(ALONE))
    # 2 n^3 / (8 n^2) with two workers.
    assert "16 and 64 operations for each byte at size 64 and 256" in said


# How time grows


def test_the_exponent_is_the_slope_of_the_logarithms():
    found = exponent(of(session(6, {"alone": ALONE}), "alone"))
    assert found.value.value == pytest.approx(3.0, abs=1e-6)
    assert (found.sizes, found.launches) == ((64, 128, 256), 6)
    assert found.value.low == pytest.approx(3.0, abs=1e-6)


def test_the_interval_of_the_exponent_covers_what_the_launches_differ_by():
    steep = [{64: 0.001, 128: 0.001 * 2 ** (3 + 0.02 * place)} for place in range(-3, 4)]
    found = {str(place): record("alone", times, place) for place, times in enumerate(steep, start=1)}
    value = exponent(rows(found)).value
    assert value.value == pytest.approx(3.0)
    assert 2.94 <= value.low < 3.0 < value.high <= 3.06


def test_five_launches_have_an_exponent_without_an_interval():
    value = exponent(of(session(5, {"naive": ALONE}), "naive")).value
    assert (value.low, value.high) == (None, None)


def test_one_size_has_no_exponent():
    assert exponent(rows({"one": record("alone", {64: 1.0})})) is None
