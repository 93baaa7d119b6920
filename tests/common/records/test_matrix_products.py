"""common/records/matrix_products.py: what a call took, of what parts, and that a record comes back as it went."""

import json

import pytest

from common.records.matrix_products import (
    Cell,
    call_seconds,
    in_words,
    part_shares,
    read_record,
    read_records,
    write_record,
)
from tests.common.records.matrix_records import record

# Rank 0 begins its first call at 0 s, rank 1 at 1 s; in the second call it's rank 0 that is late.
CELL = Cell(
    size=8,
    parts=["scatter", "product"],
    moments_seconds=[[[0.0, 2.0, 5.0], [11.0, 12.0, 15.0]], [[1.0, 2.5, 9.0], [10.0, 13.0, 14.0]]],
)


def test_a_call_lasts_from_the_last_arrival_until_rank_0_has_the_product():
    assert call_seconds(CELL) == [4.0, 4.0]


def test_the_parts_are_those_of_rank_0_once_all_have_arrived():
    # 1 s of the first call's scatter passed before rank 1 came.
    assert part_shares(CELL) == {"scatter": 0.25, "product": 0.75}


def test_a_part_that_was_over_before_the_last_rank_came_counts_nothing():
    late = Cell(size=8, parts=["cut", "all"], moments_seconds=[[[0.0, 1.0, 5.0]], [[3.0, 3.0, 5.0]]])
    assert part_shares(late) == {"cut": 0.0, "all": 1.0}


def test_a_cell_in_words_has_its_size_its_median_and_its_parts():
    said = " ".join(in_words(CELL).split())
    assert said == "8 x 8 4,000.000 ms (2 calls; scatter 25 %, product 75 %)"


def test_a_record_comes_back_as_it_was_written(tmp_path):
    known = record("rows_mpi", {64: 0.001, 128: 0.004}, repetition=3)
    write_record(tmp_path / "one.json", known)
    assert read_records(tmp_path) == {"one": known}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema_version": 99}, "is of schema version 99"),
        ({"status": "fine"}, "no record has such a value of status"),
        ({"cells": [{"size": "8", "parts": [], "moments_seconds": []}]}, "no record has such a value of size"),
        ({"unknown": 1}, "isn't a record of matrix products that can be read"),
    ],
)
def test_a_damaged_record_is_refused(change, said, tmp_path, refusal):
    path = tmp_path / "one.json"
    write_record(path, record("alone", {64: 0.001}))
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert said in refusal(lambda: read_record(path))
