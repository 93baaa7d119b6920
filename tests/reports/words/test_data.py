"""The tables of numbers as they stand in the report: each one, with what its columns are, and its numbers in words."""

import math
from types import SimpleNamespace

import pandas as pd
import pytest

from common.contract.task import PRESETS
from reports.blocks import DASH, Block
from reports.render import pdf, shell
from reports.tables.columns import COLUMNS, ROWS, table
from reports.tables.material import Material
from reports.words import data
from tests.reports.materials import material_of
from tests.reports.records import make_record, unfinished
from tests.reports.whole_report import results_in


def column_of(blocks: list[Block], name: str, column: str) -> list[str]:
    """The cells of one column of one table."""
    [block] = [block for block in blocks if block.get("name") == name]
    return [row[block["columns"].index(column)] for row in block["rows"]]


def with_tables(**tables: pd.DataFrame) -> list[Block]:
    """The section of a report that has nothing but these tables."""
    nothing = {name: table(name, ()) for name in COLUMNS}
    return data.section(SimpleNamespace(**nothing | tables, names={}))


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> list[Block]:
    return data.section(Material(results_in(tmp_path_factory.mktemp("whole"))))


def test_every_table_is_there_but_the_one_with_too_many_rows(whole):
    assert [block["name"] for block in whole[2:]] == [name for name in COLUMNS if name != "windows"]
    assert [*ROWS] == [*COLUMNS]


def test_each_table_says_what_its_rows_and_its_columns_are(whole):
    for block in whole[2:]:
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
    memory = table("memory", [{"regime": "", "n": 1234, "reference_n": 5.0}, {"regime": "", "n": 5}])
    blocks = with_tables(memory=memory)
    assert column_of(blocks, "memory", "n") == ["1,234", "5"]
    assert column_of(blocks, "memory", "reference_n") == ["5", DASH]


def test_flags_lists_and_names_are_words():
    [row] = data.section(material_of(make_record("amber_ring", 2, compared_with={"convenience of": "mine"})))[2]["rows"]
    assert {"yes", "no", "convenience of: mine", DASH} <= {*row}
    comparisons = table("comparisons", [{"regime": "", "rounds": [1, 2], "logs": [0.25, 1 / 3]}])
    blocks = with_tables(comparisons=comparisons)
    assert column_of(blocks, "comparisons", "rounds") == ["1, 2"]
    assert column_of(blocks, "comparisons", "logs") == ["0.250, 0.333"]


def test_the_pdf_has_the_tables_in_parts_as_wide_as_a_page_only_where_an_appendix_is_asked_for():
    task, record = PRESETS["digits"], make_record()
    parts = [block | {"appendix": True} for block in data.section(material_of(record))]
    content, _ = shell.compose(task.preset, [record.started_at], parts)
    plain, whole = (
        pdf.typeset([record.started_at], content | {"appendix": appendix}, {}) for appendix in (False, True)
    )
    assert len(whole) > 2 * len(plain)
    [table] = [block for block in parts if block.get("name") == "launches"]
    heading, about, *opened = pdf.opened(table)
    assert (heading["text"], about["text"]) == ("launches", ROWS["launches"])
    assert [each["columns"][0] for each in opened] == ["launch"] * len(opened)
    assert [name for each in opened for name in each["columns"][1:]] == table["columns"][1:]
    assert all(sum(map(len, each["columns"])) < 130 for each in opened)
