"""`python -m reports` as a user calls it, also on what nobody would want: one clear line, never a wrong number."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from common.errors import UserError
from common.paths import ROOT
from reports.__main__ import write_report
from reports.tables.results import newest_comparison
from tests.changes import changed
from tests.reports.materials import material_of
from tests.reports.pieces import pages_of
from tests.reports.records import HEADER, HOST, make_record, named, over_hosts, unfinished, write_all

NAME = "amber_ring-2w-00"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    records = named(make_record("amber_single"), make_record("amber_ring", backend="gl\u00f6"))
    return write_all(tmp_path_factory.mktemp("records"), records)


@pytest.fixture(scope="module")
def elsewhere(folder) -> tuple[Path, list[str]]:
    """The PDF that another process wrote in an ASCII locale, and the lines that it printed, last what it loaded."""
    # Python's own hash is another one in every process.
    seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    variables = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONHASHSEED": seed}
    loaded = "[name for name in sys.modules if name.partition('.')[0].endswith('_impl')]"
    program = f"import runpy, sys; runpy.run_module('reports', run_name='__main__'); print({loaded})"
    pdf = folder / "new" / "report.pdf"
    options = ["--results", folder, "--out", pdf]
    command = [sys.executable, "-c", program, *map(str, options)]
    result = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return pdf, result.stdout.splitlines()


def test_in_an_ascii_locale_records_become_a_pdf_and_a_page_without_loading_any_strategy(folder, elsewhere):
    pdf, said = elsewhere
    page, beside = pdf.with_name("report.html"), pdf.with_name("report-tables")
    assert said[-2:] == [f"{pdf} and {page}: 2 records, their tables as CSV in {beside}", "[]"]
    assert page.read_bytes().startswith(b"<!doctype html>")
    assert pd.read_csv(beside / "launches.csv")["seconds"].tolist() == [0.002, 0.002]
    # It has the font of its figures, and the tags of accessible documents.
    assert pages_of(pdf.read_bytes()) == 4
    assert re.search(rb"/BaseFont */[A-Z]{6}\+DejaVuSans\b", pdf.read_bytes())
    assert b"/StructTreeRoot" in pdf.read_bytes()
    assert b"pdfuaid" in pdf.read_bytes()


def test_the_same_records_give_the_same_bytes_in_any_process(folder, elsewhere, tmp_path):
    write_report(folder, tmp_path / "here.pdf")
    page = (tmp_path / "here.html").read_bytes()
    assert page == elsewhere[0].with_suffix(".html").read_bytes()
    assert (tmp_path / "here.pdf").read_bytes() == elsewhere[0].read_bytes()
    assert str(folder).encode() not in page


def test_a_folder_that_is_missing_or_empty_and_a_damaged_plan_are_refused(tmp_path, refused):
    options = ["--out", tmp_path / "a.pdf", "--results"]
    assert "none isn't a folder" in refused(*options, tmp_path / "none")
    assert "holds no records" in refused(*options, tmp_path)
    (tmp_path / "plan.csv").write_text("cell,workers\nx,1\n")
    line = refused(*options, tmp_path)
    assert "plan.csv can't be read (it has no column exchange, launch, order_seed, position, preset" in line


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_made(tmp_path, folder, refused):
    assert "let --out end in .pdf" in refused("--results", folder, "--out", tmp_path / "a.html")
    for blocked in ("a.html", "a-tables/columns.csv"):
        (tmp_path / blocked).mkdir(parents=True)
        assert f"{blocked} can't be written" in refused("--results", folder, "--out", tmp_path / "a.pdf")
        (tmp_path / blocked).rmdir()
    assert not (tmp_path / "a.pdf").exists()


def test_an_appendix_has_every_table_in_the_pdf(folder, tmp_path):
    write_report(folder, tmp_path / "report.pdf", appendix=True)
    assert pages_of((tmp_path / "report.pdf").read_bytes()) > 5


def test_without_a_folder_the_newest_comparison_is_taken(tmp_path):
    for name, seconds in (("20260101-full", 2_000), ("20260202-quick", 1_000)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "plan.csv").touch()
        os.utime(tmp_path / name / "plan.csv", (seconds, seconds))
    assert newest_comparison(tmp_path).name == "20260101-full"
    with pytest.raises(UserError, match="holds no comparison"):
        newest_comparison(tmp_path / "20260101-full")


@pytest.mark.usefixtures("undrawn")
def test_another_folder_stands_beside_the_first(tmp_path, folder, refused):
    options = ["--results", folder, "--out", tmp_path / "report.pdf", "--against"]
    assert f"{tmp_path} holds no records" in refused(*options, tmp_path)
    assert f"{folder} can't stand beside itself" in refused(*options, folder)
    write_all(tmp_path, named(make_record("amber_ring", 2, (1.0,) * 4)))
    write_report(folder, tmp_path / "report.pdf", against=tmp_path)
    assert f"Beside {tmp_path}" in (tmp_path / "report.html").read_text()


def test_a_figure_alone_is_written_where_it_is_asked_for(tmp_path, refused):
    options = ["--results", tmp_path, "--out", tmp_path / "one.svg"]
    write_all(tmp_path, named(make_record("amber_single", status="failed", windows=[])))
    assert "have no such figure, but none: let --out end in .pdf" in refused(*options)
    records = [over_hosts(megabits=megabits) for megabits in (10.0, 100.0, 1000.0)]
    write_all(tmp_path, named(over_hosts("amber_single", 1, 1), *records))
    assert "have no such figure, but headline" in refused(*options, "--figure", "networks")
    assert not (tmp_path / "one.svg").exists()
    write_report(tmp_path, tmp_path / "new" / "sweep.svg", figure="sweep")
    assert b"one host alone: amber_single" in (tmp_path / "new" / "sweep.svg").read_bytes()
    write_report(tmp_path, tmp_path / "one.svg")
    # Without a name it is the first page's.
    assert b"one host alone" not in (tmp_path / "one.svg").read_bytes()


@pytest.fixture
def arguments(tmp_path) -> list[object]:
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
