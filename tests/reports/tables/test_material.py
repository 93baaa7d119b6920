"""reports/tables/material.py: the report's numbers as pandas tables and CSV files."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from common.errors import UserError
from reports import load
from reports.tables.columns import COLUMNS
from reports.tables.material import Material
from tests.reports.records import named, unfinished, write_all

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
