"""reports/tables/material.py: the report's numbers as pandas tables and CSV files."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from msgspec import structs

from common.errors import UserError
from common.records.ceiling import FOLDER
from common.records.files import write_record
from common.records.training import Record
from reports import load
from reports.tables.columns import COLUMNS
from reports.tables.material import Material
from tests.changes import changed
from tests.reports.probes import probe
from tests.reports.records import (
    MadeUpOptions,
    certified,
    make_record,
    named,
    over_hosts,
    unfinished,
    varied,
    write_all,
    write_weights,
)
from tests.reports.replays import replay
from tests.reports.replays import replayed as replayed_as

ROOT = Path(__file__).parents[3]
AROUND = {
    **{"core_seconds": 0.02, "steal_seconds": 0.0, "busy_seconds": 0.02, "own_seconds": 0.02},
    **{"involuntary_switches": 3, "spin_seconds": 1e-4, "clock_megahertz": 2000.0},
}
HELD = {"parameters": 3000, "gradients": 3000, "optimizer_state": 0, "above_import": 50_000}


def launch(name: str, number: int, milliseconds: float, exchange: bool = True) -> Record:
    """A launch of two workers whose record tells all that a table has a column for."""
    times = (milliseconds + number / 300,) * 3
    record = make_record(name, 2, times, options=MadeUpOptions(exchange=exchange), memory_bytes=[HELD, HELD])
    return changed(record, windows=[structs.replace(window, **AROUND) for window in record.windows])


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Six rounds of two strategies, one of them without exchange and replayed too, a launch that failed, and a
    framework's probe; options and an asynchronous launch; and virtual hosts whose links have three bandwidths.
    """
    records = [launch(name, number, 2.0) for name in ("amber_ring", "cobalt_replicas") for number in range(6)]
    records += [launch("amber_ring", number, 1.5, exchange=False) for number in range(6)]
    records += [make_record("amber_single"), unfinished("failed", "It ended, with a comma.", "amber_parts")]
    phases = [{"name": "waiting", "seconds": 0.06, "meaning": "for all"}]
    records += [make_record("amber_ring", 4), changed(varied("amber_ring", 4, compiled=True), phases=phases)]
    records += [over_hosts(megabits=megabits, host_bytes_per_step=[1e6, 2e6]) for megabits in (10.0, 100.0, 1000.0)]
    results = tmp_path_factory.mktemp("results")
    write_weights(results / "w.safetensors", seed=3, batch=64, steps=60)
    apart = {"examples_per_step": 64, "staleness": [0, 2], "checkpoint": "w.safetensors"}
    certain = [*certified(results, *records), make_record("cobalt_servers", 2, **apart)]
    write_all(results, named(*certain))
    (results / FOLDER).mkdir()
    write_record(results / FOLDER / "amber.json", probe(milliseconds=1.0))
    (results / "replays").mkdir()
    for number in range(6):
        replayed = replay(0.2, number + 1, replayed=replayed_as(f"amber_ring-2w-{number:02d}", under_way=(0.001,)))
        write_record(results / "replays" / f"{number}.json", replayed)
    return results


@pytest.fixture(scope="module")
def loaded(folder) -> Material:
    return load(str(folder))


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


@pytest.mark.parametrize("name", COLUMNS)
def test_numbers_come_back_from_csv_with_all_their_digits(written, loaded, name):
    numbers = getattr(loaded, name).select_dtypes("number")
    found = pd.read_csv(written / f"{name}.csv")
    assert len(numbers)
    pd.testing.assert_frame_equal(found[numbers.columns], numbers, check_exact=True, check_dtype=False)


def test_lists_are_written_as_json_and_commas_stay_in_their_field(written, loaded):
    found = pd.read_csv(written / "comparisons.csv")
    assert json.loads(found["logs"].iloc[0]) == loaded.comparisons["logs"].iloc[0]
    assert len(json.loads(found["rounds"].iloc[0])) == 6
    endings = pd.read_csv(written / "endings.csv")
    assert "It ended, with a comma." in set(endings["reason"])


def test_the_same_records_give_the_same_bytes(written, folder, tmp_path):
    load(folder).write(tmp_path)
    for path in written.iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


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
