"""How numbers are written in the blocks of a document."""

import math

from common.observations import numbers
from reports import blocks


def test_times_are_written_in_milliseconds_with_a_dash_for_none():
    assert blocks.milliseconds(0.00206) == "2.06"
    assert blocks.milliseconds(math.nan) == blocks.DASH


def test_an_interval_has_both_its_ends_or_a_dash():
    assert numbers.interval(0.00192, 0.00208, blocks.milliseconds) == "1.92 to 2.08"
    assert numbers.interval(math.nan, math.nan) == blocks.DASH


def test_a_change_has_its_sign():
    assert numbers.signed_percent(0.25) == "+25 %"
    assert numbers.signed_percent(-0.0312, 1) == "\N{MINUS SIGN}3.1 %"


def test_the_first_column_and_those_with_words_are_set_flush_left():
    rows = [["1", "> faster", "1.00 to 2.00", "95 %"], ["2", "\N{EN DASH}", "(1.5)", "yes"]]
    assert blocks.table([*"abcd"], rows)["align"] == ["left", "left", "right", "left"]
    assert blocks.table([*"ab"], [["1", "2"]], wide={1: 1})["align"] == ["left", "left"]
    assert blocks.table([*"ab"], [["1", "2"]])["align"] == ["left", "right"]
    assert blocks.table([*"ab"], [["1", "2 ranks, cpu"]])["align"] == ["left", "left"]


def test_the_beginning_of_a_sentence_keeps_its_other_capitals():
    assert blocks.capitalized("on the GPU") == "On the GPU"


def test_of_many_names_some_stand_with_how_many_more_there_are():
    assert blocks.some(["a", "b", "c"], 3) == "a, b and c"
    assert blocks.some(["a", "b", "c", "d"], 3) == "a, b and 2 more"
