"""How numbers, names and columns are written in the blocks of a document."""

import math

import pytest

from common.observations import numbers
from reports import blocks


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (blocks.milliseconds(0.00206), "2.06"),
        (blocks.milliseconds(math.nan), blocks.DASH),
        (numbers.interval(0.00192, 0.00208, blocks.milliseconds), "1.92 to 2.08"),
        (numbers.interval(math.nan, math.nan), blocks.DASH),
        (numbers.signed_percent(0.25), "+25 %"),
        (numbers.signed_percent(-0.0312, 1), "\N{MINUS SIGN}3.1 %"),
        (blocks.capitalized("on the GPU"), "On the GPU"),
        (blocks.some(["a", "b", "c"], 3), "a, b and c"),
        (blocks.some(["a", "b", "c", "d"], 3), "a, b and 2 more"),
    ],
)
def test_numbers_have_their_digits_sentences_their_capital_and_many_names_some(written, text):
    assert written == text
