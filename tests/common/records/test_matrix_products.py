"""common/records/matrix_products.py: what a call took, and of what parts."""

from common.records.matrix_products import Cell, call_seconds, in_words, part_shares

# Rank 0 begins its first call at 0 s, rank 1 at 1 s; in the second call it's rank 0 that is late.
CELL = Cell(
    size=8,
    parts=["scatter", "product"],
    moments_seconds=[[[0.0, 2.0, 5.0], [11.0, 12.0, 15.0]], [[1.0, 2.5, 9.0], [10.0, 13.0, 14.0]]],
)


def test_a_call_lasts_from_the_last_arrival_until_rank_0_has_the_product_and_so_do_its_parts():
    assert call_seconds(CELL) == [4.0, 4.0]
    # 1 s of the first call's scatter passed before rank 1 came.
    assert part_shares(CELL) == {"scatter": 0.25, "product": 0.75}
    late = Cell(size=8, parts=["cut", "all"], moments_seconds=[[[0.0, 1.0, 5.0]], [[3.0, 3.0, 5.0]]])
    assert part_shares(late) == {"cut": 0.0, "all": 1.0}
    assert " ".join(in_words(CELL).split()) == "8 x 8 4,000.000 ms (2 calls; scatter 25 %, product 75 %)"
