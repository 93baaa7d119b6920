"""common/measurement/matrix_calls.py: the matrices, the check that must be able to fail, and the clocked loop."""

import dataclasses
import itertools
import time

import numpy as np
import pytest

from common.declarations.products import Products
from common.errors import LaunchFailedError
from common.measurement import matrix_calls as matrix
from common.measurement.matrix_calls import inputs, measure
from common.measurement.world import World
from common.records.files import read_record
from common.records.matrix_products import MatrixRecord, call_seconds
from tests.common.conftest import OVERSUBSCRIBED
from tests.common.records.matrix_records import ALONE, SHARED

WORLD = World(pinning=OVERSUBSCRIBED)


def by_numpy(matrices):
    """What multiplies matrices as they should be."""

    def multiply(parts):
        np.matmul(matrices.a, matrices.b, out=matrices.c)
        parts.end("product")

    return multiply


@pytest.mark.parametrize("size", [1, 7, 64, 1024])
def test_no_sum_of_products_leaves_the_whole_numbers_that_float32_has(size):
    a, b = inputs(size, seed=3, call=0)
    assert a.dtype == b.dtype == np.float32
    assert np.array_equal(a, np.round(a))
    # Of absolute values, so that no partial sum in any order is larger.
    assert (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)).max() < 2**24
    assert size * matrix._LARGEST_ELEMENT**2 < 2**24 or np.abs(a).max() < matrix._LARGEST_ELEMENT


def test_every_call_has_other_matrices_and_begins_after_a_barrier():
    drawn = [inputs(8, seed, call) for seed in (0, 1) for call in (0, 1)]
    assert all(not np.array_equal(one, other) for one, other in itertools.combinations(drawn, 2))
    assert np.array_equal(inputs(8, 1, 1), drawn[3])
    met = []
    measure(ALONE, Products(sizes=(4,), iterations=3, warmup_iterations=2), WORLD, lambda: met.append(1), by_numpy)
    assert len(met) == 5


def test_every_timed_call_is_kept_with_its_parts(tmp_path, capsys):
    products = Products(sizes=(4, 6), iterations=3, record=tmp_path / "one.json")

    def slow(matrices):
        def multiply(parts):
            time.sleep(0.002)
            parts.end("wait")
            by_numpy(matrices)(parts)

        return multiply

    measure(ALONE, products, WORLD, lambda: None, slow)
    found = read_record(tmp_path / "one.json", MatrixRecord)
    assert (found.way, found.kind, found.status, found.world_size) == ("numpy_alone", "alone", "ok", 1)
    assert (found.products.sizes, found.oversubscribed) == ((4, 6), True)
    assert {*found.versions} >= {"python", "numpy"}
    for cell, size in zip(found.cells, (4, 6), strict=True):
        assert (cell.size, cell.parts) == (size, ["wait", "product"])
        assert [len(calls) for calls in cell.moments_seconds] == [3]
        assert all(0.002 <= seconds < 60 for seconds in call_seconds(cell))
        assert cell.moments_seconds[0][0][0] == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda empty, made: made[-1] + 1, "is -9846 where -9847 belongs"),
        (lambda empty, made: made[0], "is -9847 where -4392 belongs"),
        (lambda empty, made: empty, "is nan where -9847 belongs"),
    ],
    ids=["one more", "that of the call before", "not there"],
)
def test_a_wrong_element_of_a_product_is_told_with_its_place_and_leaves_no_record(spoil, said, tmp_path):
    def prepare(matrices):
        made = []

        def multiply(parts):
            empty = matrices.c.copy()
            by_numpy(matrices)(parts)
            made.append(matrices.c.copy())
            matrices.c[2, 3] = spoil(empty, made)[2, 3]

        return multiply

    products = Products(sizes=(4,), iterations=2, warmup_iterations=0, record=tmp_path / "one.json")
    wrong = "1 of 16 elements of a product of size 4 are wrong; that in row 2 and column 3"
    with pytest.raises(LaunchFailedError, match=f"NumPy alone: {wrong} {said}"):
        measure(ALONE, products, WORLD, lambda: None, prepare)
    assert not products.record.exists()


def test_a_wrong_product_that_only_rank_0_can_see_ends_every_rank():
    moments = [[0, 1], [2, 3]]
    gathered = [(moments, "all of it is wrong"), (moments, None)]
    second = dataclasses.replace(WORLD, rank=1, size=2, all_gather=lambda own: gathered)
    with pytest.raises(LaunchFailedError, match="NumPy by rows: all of it is wrong"):
        measure(SHARED, Products(sizes=(4,)), second, lambda: None, lambda matrices: lambda parts: parts.end("all"))
