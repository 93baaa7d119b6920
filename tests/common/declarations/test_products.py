"""common/declarations/products.py: what can't be meant is refused, and what can leads back to its arguments."""

import pytest

from common.command_line import options_of
from common.declarations.arguments import parse
from common.declarations.products import Products, check_workers
from tests.common.records.matrix_records import ALONE


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sizes", "64", "0"], "--sizes 64 0: give one or more"),
        (["--sizes", "64", "9000"], "--sizes 64 9000: give one or more"),
        (["--iterations", "0"], "--iterations 0: give 1 or more."),
        (["--workers", "0"], "--workers 0: give 1 or more."),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused(arguments, said, refusal):
    assert said in refusal(lambda: parse(Products, "help", arguments))


def test_one_process_has_no_workers_and_arguments_give_products_back(refusal):
    assert "is one process" in refusal(lambda: check_workers(ALONE, Products(), 2))
    products = Products(sizes=(8, 16), iterations=3, seed=5, workers=2)
    assert parse(Products, "help", options_of(products, Products())) == products
