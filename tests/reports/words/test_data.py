"""The tables of numbers as they stand in the report: each one, with what its columns are, and its numbers in words."""

import math
from types import SimpleNamespace

import pandas as pd
import pytest

from reports.blocks import DASH, Block
from reports.tables.columns import COLUMNS, ROWS, table
from reports.words import data
from tests.reports.materials import material_of
from tests.reports.records import make_record, unfinished


def column_of(blocks: list[Block], name: str, column: str) -> list[str]:
    """The cells of one column of one table."""
    [block] = [block for block in blocks if block.get("name") == name]
    return [row[block["columns"].index(column)] for row in block["rows"]]


def with_tables(**tables: pd.DataFrame) -> list[Block]:
    """The section of a report that has nothing but these tables."""
    nothing = {name: table(name, ()) for name in COLUMNS}
    return data.section(SimpleNamespace(**nothing | tables, names={}))


def test_every_table_is_there_with_what_its_rows_and_its_columns_are(whole):
    tables = [block for block in whole.content["blocks"] if block["kind"] == "data"]
    # The whole report is of one network.
    assert [block["name"] for block in tables] == [name for name in COLUMNS if name != "networks"]
    assert [*COLUMNS] == [*ROWS]
    for block in tables:
        assert block["about"] == ROWS[block["name"]]
        known = COLUMNS[block["name"]]
        assert block["meanings"] == [known[column] for column in block["columns"]]
        assert not {"task", "work", "regime_of_any_batch"} & {*block["columns"]}


def test_a_table_without_rows_is_left_out():
    heading, text, *tables = data.section(material_of(unfinished("failed", "It ended.")))
    assert [heading["kind"], text["kind"]] == ["heading", "text"]
    assert [block["name"] for block in tables] == ["endings"]


def test_a_regime_has_its_short_name():
    assert column_of(data.section(material_of(make_record())), "cells", "regime") == ["digits weak"]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (0.0123456, "0.0123"),
        (1234567.8, "1,234,568"),
        (1.23e-7, "1.2e-7"),
        (math.inf, "\N{INFINITY}"),
        (math.nan, DASH),
        (0.0, "0"),
    ],
)
def test_a_number_has_three_or_four_digits_and_what_does_not_exist_a_dash(value, cell):
    startups = table("startups", [{"strategy": "amber_ring", "whole": value}, {"strategy": "", "whole": 0.5}])
    assert column_of(with_tables(startups=startups), "startups", "whole") == [cell, "0.500"]


def test_whole_numbers_have_commas_even_where_some_rows_have_none():
    memory = table("memory", [{"regime": "", "n": 1234, "device_peak": 5.0}, {"regime": "", "n": 5}])
    blocks = with_tables(memory=memory)
    assert column_of(blocks, "memory", "n") == ["1,234", "5"]
    assert column_of(blocks, "memory", "device_peak") == ["5", DASH]


def test_flags_lists_and_names_are_words():
    [row] = data.section(material_of(make_record("amber_ring", 2, compared_with={"convenience of": "mine"})))[2]["rows"]
    assert {"yes", "no", "convenience of: mine", DASH} <= {*row}
    comparisons = table("comparisons", [{"regime": "", "rounds": [1, 2], "logs": [0.25, 1 / 3]}])
    blocks = with_tables(comparisons=comparisons)
    assert column_of(blocks, "comparisons", "rounds") == ["1, 2"]
    assert column_of(blocks, "comparisons", "logs") == ["0.250, 0.333"]
