"""The report's numbers: as pandas tables, as CSV files, and as they stand folded on the page."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from common.errors import UserError
from reports import load
from reports.blocks import DASH, Block
from reports.tables.columns import COLUMNS, ROWS, table
from reports.tables.material import Material
from reports.words import data
from tests.reports.materials import material_of
from tests.reports.records import make_record, named, unfinished, write_all

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def loaded(whole) -> Material:
    return whole.material


@pytest.fixture(scope="module")
def written(loaded, tmp_path_factory) -> Path:
    beside = tmp_path_factory.mktemp("tables")
    loaded.write(beside)
    return beside


def test_every_column_is_explained_and_every_explained_column_exists(written):
    listed = pd.read_csv(written / "columns.csv")
    assert listed["meaning"].str.len().min() > 0
    for name in COLUMNS:
        columns = [*pd.read_csv(written / f"{name}.csv", nrows=0).columns]
        assert [*listed.loc[listed["table"] == name, "column"]] == columns
    assert {path.stem for path in written.iterdir()} == {*COLUMNS, "columns"}


# The whole report is of one network.
@pytest.mark.parametrize("name", [name for name in COLUMNS if name != "networks"])
def test_numbers_come_back_from_csv_with_all_their_digits(written, loaded, name):
    numbers = getattr(loaded, name).select_dtypes("number")
    found = pd.read_csv(written / f"{name}.csv")
    assert len(numbers)
    pd.testing.assert_frame_equal(found[numbers.columns], numbers, check_exact=True, check_dtype=False)


def test_lists_are_written_as_json_and_commas_stay_in_their_field(written, loaded):
    found = pd.read_csv(written / "comparisons.csv")
    assert json.loads(found["logs"].iloc[0]) == loaded.comparisons["logs"].iloc[0]
    assert len(json.loads(found["rounds"].iloc[0])) == 6
    strategies = pd.read_csv(written / "endings.csv")["strategy"]
    assert "amber_ring, 4 hosts, 10 Mbit/s" in set(strategies)


def test_without_a_measurement_every_table_has_its_columns_and_endings_has_the_launch(tmp_path):
    loaded = load(write_all(tmp_path, named(unfinished("failed", "It ended."))))
    for name, columns in COLUMNS.items():
        assert [*getattr(loaded, name).columns] == [*columns]
    assert [len(getattr(loaded, name)) for name in COLUMNS if name != "endings"] == [0] * (len(COLUMNS) - 1)
    assert [*loaded.endings["ending"]] == ["failed"]


def test_a_folder_without_records_is_refused(tmp_path):
    with pytest.raises(UserError, match="holds no records"):
        load(tmp_path)


def test_the_readme_of_sessions_shows_how_to_load_them(monkeypatch, tmp_path):
    [program] = re.findall(r"```python\n(.*?)```", (ROOT / "common" / "sessions" / "README.md").read_text(), re.S)
    [folder] = re.findall(r'load\("(.+)"\)', program)
    (tmp_path / folder).mkdir(parents=True)
    write_all(tmp_path / folder, named(unfinished("failed", "It ended.")))
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(program, names)
    assert len(names["tables"].endings) == 1


def test_whoever_imports_the_package_alone_waits_for_no_library():
    program = "import reports, sys; assert not {'pandas', 'numpy', 'matplotlib', 'typst'} & {*sys.modules}"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0


# On the page


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
