"""Records and plans that nobody would want: a report without a wrong number or one clear line, never a traceback."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from tests.changes import changed
from tests.reports.materials import material_of
from tests.reports.records import HEADER, HOST, make_record, named, unfinished, write_all

NAME = "amber_ring-2w-00"


@pytest.fixture
def arguments(tmp_path) -> list[object]:
    """What calls for a report on the records in `tmp_path`."""
    return ["--results", tmp_path, "--out", tmp_path / "out" / "report.pdf"]


def csv(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(folder / "out" / "report-tables" / f"{name}.csv")


def test_a_launch_under_two_names_is_refused_since_it_would_count_twice(tmp_path, arguments, refused):
    write_all(tmp_path, named(make_record("amber_ring", 2), make_record("amber_ring", 2)))
    shutil.copy(tmp_path / f"{NAME}.json", tmp_path / "copy.json")
    line = refused(*arguments)
    assert f"{tmp_path / f'{NAME}.json'} and {tmp_path / 'copy.json'} are records of the same launch" in line


@pytest.mark.usefixtures("undrawn")
def test_one_record_gives_a_report_and_a_launch_that_the_plan_names_twice_counts_once(tmp_path, arguments, called):
    write_all(tmp_path, {NAME: make_record("amber_ring", 2)})
    row = f"1,{NAME},amber_ring,,digits,weak,2,True,1,throughput,5"
    (tmp_path / "plan.csv").write_text("\n".join([HEADER, row, row]))
    assert called(*arguments)[0] == 0
    assert len(csv(tmp_path, "endings")) == 1
    assert csv(tmp_path, "cells")[["n", "seconds"]].to_numpy().tolist() == [[1, 0.002]]


# Matplotlib leaves the file of a font to the garbage collector, of whichever test drew with it.
@pytest.mark.filterwarnings("error", "ignore:unclosed file.*ttf:ResourceWarning")
def test_whatever_is_odd_and_not_wrong_gives_a_report_with_the_numbers_of_each(tmp_path, arguments, called):
    markup = r"#odd_$\nosuch$_*b*_<b>@x</b>"
    elsewhere = HOST | {"name": "#there", "processor": "Other *CPU*; $x", "cores": 4}
    unheard = {"family": "#Quartz", "framework": "", "colors": ["no color"], "base": "nowhere", "label": "a $, #b"}
    records = [
        make_record("amber_ring", 2, (2.0,) * 3),
        make_record("amber_ring", 2, (4.0,) * 3, host=elsewhere),
        *(make_record(markup, workers, (1.0,) * 3, **unheard) for workers in (1, 2)),
        unfinished("failed", r"#panic() $\nosuch$ *b* @x <b>", "amber_parts"),
        unfinished("unsupported", "", "amber_threads"),
    ]
    write_all(tmp_path, {f"launch-{index}": record for index, record in enumerate(records)})
    status, said = called(*arguments)
    assert (status, said.splitlines()[-1].split(": ")[1].split(",")[0]) == (0, "6 records")
    assert (tmp_path / "out" / "report.pdf").read_bytes().startswith(b"%PDF-")
    rows = csv(tmp_path, "cells")
    assert sorted(rows.loc[rows["strategy"] == "amber_ring", "seconds"]) == [0.002, 0.004]
    assert set(rows.loc[rows["strategy"] == f"{markup}, a $, #b", "n"]) == {1}
    assert csv(tmp_path, "endings")["ending"].value_counts().to_dict() == {"ok": 4, "failed": 1, "unsupported": 1}


@pytest.mark.parametrize(
    ("there", "ends"),
    [
        ({"processor": "Other CPU"}, ["cpu on 2 cores of Other CPU", "cpu on 2 cores of Some CPU"]),
        ({"name": "there"}, ["cpu on 2 cores of Some CPU of here", "cpu on 2 cores of Some CPU of there"]),
    ],
)
def test_two_machines_are_told_apart_wherever_a_regime_is_named(there, ends):
    records = [make_record("amber_ring", 2), changed(make_record("amber_ring", 2), host=HOST | there)]
    names = material_of(*records).names.values()
    assert [name.rpartition(", ")[2] for name in sorted(names)] == ends
