"""The report's numbers: as pandas tables, as CSV files, and as they stand folded on the page."""

import json
import math
import re
import subprocess
import sys

import pandas as pd
import pytest

from common.paths import ROOT
from reports import load
from reports.blocks import DASH
from reports.tables.columns import COLUMNS
from reports.words import data
from tests.reports.materials import material_of
from tests.reports.pieces import rows_of
from tests.reports.records import make_record, named, unfinished, write_all


def test_csv_files_have_all_digits_lists_as_json_and_commas_in_their_field(tmp_path, whole):
    whole.material.write(tmp_path)
    for name in COLUMNS:
        numbers = getattr(whole.material, name).select_dtypes("number")
        found = pd.read_csv(tmp_path / f"{name}.csv")
        # The whole report is of one network.
        assert len(numbers) or name == "networks"
        pd.testing.assert_frame_equal(found[numbers.columns], numbers, check_exact=True, check_dtype=False)
    explained = pd.read_csv(tmp_path / "columns.csv")
    assert {path.stem for path in tmp_path.iterdir()} == {*explained["table"], "columns"}
    assert explained["meaning"].str.len().min() > 0
    exchanges = pd.read_csv(tmp_path / "exchanges.csv")
    assert json.loads(exchanges["replays"].iloc[0]) == whole.material.exchanges["replays"].iloc[0]
    assert "amber_ring, 4 hosts, 10 Mbit/s" in set(pd.read_csv(tmp_path / "endings.csv")["strategy"])


def test_without_a_measurement_every_table_has_its_columns_and_endings_has_the_launch(tmp_path):
    loaded = load(write_all(tmp_path, named(unfinished("failed", "It ended."))))
    for name, columns in COLUMNS.items():
        assert [*getattr(loaded, name).columns] == [*columns]
    assert [len(getattr(loaded, name)) for name in COLUMNS if name != "endings"] == [0] * (len(COLUMNS) - 1)
    assert [*loaded.endings["ending"]] == ["failed"]


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


def test_every_table_is_there_but_for_what_regimes_say_at_length(whole):
    tables = [block for block in whole.content["blocks"] if block["kind"] == "data"]
    # The whole report is of one network.
    assert [block["name"] for block in tables] == [name for name in COLUMNS if name != "networks"]
    assert not any({"task", "work", "regime_of_any_batch"} & {*block["columns"]} for block in tables)


def test_a_table_without_rows_is_left_out_and_a_regime_has_its_short_name():
    failed = data.section(material_of(unfinished("failed", "It ended.")))
    assert [block["name"] for block in failed if block["kind"] == "data"] == ["endings"]
    assert {row["regime"] for row in rows_of(data.section(material_of(make_record())), "cells")} == {"digits weak"}


@pytest.mark.parametrize(
    ("values", "cells"),
    [
        ([0.0123456, 1.23e-7, 0.0, math.nan], ["0.0123", "1.2e-7", "0", DASH]),
        # Whole numbers, of which some rows may have none.
        ([1234, 5], ["1,234", "5"]),
        ([5.0, math.nan], ["5", DASH]),
        ([True, False], ["yes", "no"]),
        ([[0.25, 1 / 3], [1, 2], []], ["0.250, 0.333", "1, 2", DASH]),
        ([{"convenience of": "mine"}, {}], ["convenience of: mine", DASH]),
        (["amber", ""], ["amber", DASH]),
    ],
)
def test_numbers_have_three_or_four_digits_flags_and_lists_are_words_and_what_does_not_exist_is_a_dash(values, cells):
    assert data.in_rows(pd.DataFrame({"some": values})) == [[cell] for cell in cells]
