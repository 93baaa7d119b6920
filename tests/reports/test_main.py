"""`python -m reports` as a user calls it, also on what nobody would want: one clear line, never a wrong number."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest

from common.errors import UserError
from common.paths import ROOT
from reports.__main__ import write_report
from reports.tables.results import newest_comparison
from tests.launching import is_running
from tests.reports.materials import material_of
from tests.reports.pieces import pages_of
from tests.reports.records import HOST, make_record, named, over_hosts, unfinished, write_all


def refused(*arguments: object, **options: object) -> str:
    """The sentence that says why a report is refused."""
    with pytest.raises(UserError, match=r"^[^\n]+\.$") as caught:
        write_report(*arguments, **options)
    return str(caught.value)


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


def test_a_folder_that_is_missing_or_empty_and_a_damaged_plan_are_refused(tmp_path):
    assert "none isn't a folder" in refused(tmp_path / "none", tmp_path / "a.pdf")
    assert "holds no records" in refused(tmp_path, tmp_path / "a.pdf")
    (tmp_path / "plan.csv").write_text("cell,workers\nx,1\n")
    sentence = "plan.csv can't be read (it has no column exchange, launch, order_seed, position, preset"
    assert sentence in refused(tmp_path, tmp_path / "a.pdf")


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_made(tmp_path, folder):
    assert "let --out end in .pdf" in refused(folder, tmp_path / "a.html")
    for blocked in ("a.html", "a-tables/columns.csv"):
        (tmp_path / blocked).mkdir(parents=True)
        assert f"{blocked} can't be written" in refused(folder, tmp_path / "a.pdf")
        (tmp_path / blocked).rmdir()
    assert not (tmp_path / "a.pdf").exists()


def test_an_appendix_has_every_table_in_the_pdf(folder, tmp_path):
    write_report(folder, tmp_path / "report.pdf", appendix=True)
    assert pages_of((tmp_path / "report.pdf").read_bytes()) > 5


def test_the_processes_that_draw_end_with_a_report_that_is_killed():
    program = "from functools import partial; from time import sleep; from reports.render import shell; "
    program += "shell.draw_all({number: partial(sleep, 600) for number in range(2)})"
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT) as process:
        report = psutil.Process(process.pid)
        while process.poll() is None and len(drawing := report.children()) < min(2, len(os.sched_getaffinity(0))):
            time.sleep(0.05)
        process.kill()
    psutil.wait_procs(drawing, timeout=30)
    assert not [each for each in drawing if is_running(each)]


def test_without_a_folder_the_newest_comparison_is_taken(tmp_path):
    for name, seconds in (("20260101-full", 2_000), ("20260202-quick", 1_000)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "plan.csv").touch()
        os.utime(tmp_path / name / "plan.csv", (seconds, seconds))
    assert newest_comparison(tmp_path).name == "20260101-full"
    with pytest.raises(UserError, match="holds no comparison"):
        newest_comparison(tmp_path / "20260101-full")


@pytest.mark.usefixtures("undrawn")
def test_another_folder_stands_beside_the_first(tmp_path, folder):
    report = tmp_path / "report.pdf"
    assert f"{tmp_path} holds no records" in refused(folder, report, against=tmp_path)
    assert f"{folder} can't stand beside itself" in refused(folder, report, against=folder)
    write_all(tmp_path, named(make_record("amber_ring", 2, (1.0,) * 4)))
    write_report(folder, report, against=tmp_path)
    assert f"Beside {tmp_path}" in (tmp_path / "report.html").read_text()


def test_a_figure_alone_is_written_where_it_is_asked_for(tmp_path):
    picture, sweep = tmp_path / "one.svg", tmp_path / "new" / "sweep.svg"
    write_all(tmp_path, named(make_record("amber_single", status="failed", windows=[])))
    assert "have no such figure, but none: let --out end in .pdf" in refused(tmp_path, picture)
    records = [over_hosts(megabits=megabits) for megabits in (10.0, 100.0, 1000.0)]
    write_all(tmp_path, named(over_hosts("amber_single", 1, 1), *records))
    assert "have no such figure, but headline" in refused(tmp_path, picture, "networks")
    assert not picture.exists()
    write_report(tmp_path, sweep, "sweep")
    assert b"one host alone: amber_single" in sweep.read_bytes()
    write_report(tmp_path, picture)
    # Without a name it is the first page's.
    assert b"one host alone" not in picture.read_bytes()


def test_a_launch_under_two_names_is_refused_since_it_would_count_twice(tmp_path):
    write_all(tmp_path, named(make_record("amber_ring", 2), make_record("amber_ring", 2)))
    one, other = tmp_path / "amber_ring-2w-00.json", tmp_path / "copy.json"
    shutil.copy(one, other)
    assert f"{one} and {other} are records of the same launch" in refused(tmp_path, tmp_path / "report.pdf")


# Matplotlib leaves the file of a font to the garbage collector, of whichever test drew with it.
@pytest.mark.filterwarnings("error", "ignore:unclosed file.*ttf:ResourceWarning")
def test_whatever_is_odd_and_not_wrong_gives_a_report_with_the_numbers_of_each(tmp_path, capsys):
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
    write_report(tmp_path, tmp_path / "report.pdf")
    assert ": 6 records, " in capsys.readouterr().out.splitlines()[-1]
    assert (tmp_path / "report.pdf").read_bytes().startswith(b"%PDF-")
    cells, endings = (pd.read_csv(tmp_path / "report-tables" / f"{name}.csv") for name in ("cells", "endings"))
    assert sorted(cells.loc[cells["strategy"] == "amber_ring", "seconds"]) == [0.002, 0.004]
    assert set(cells.loc[cells["strategy"] == f"{markup}, a $, #b", "n"]) == {1}
    assert endings["ending"].value_counts().to_dict() == {"ok": 4, "failed": 1, "unsupported": 1}


@pytest.mark.parametrize(
    ("there", "ends"),
    [
        ({"processor": "Other CPU"}, ["Other CPU", "Some CPU"]),
        ({"name": "there"}, ["Some CPU of here", "Some CPU of there"]),
    ],
)
def test_two_machines_are_told_apart_wherever_a_regime_is_named(there, ends):
    names = material_of(make_record(), make_record(host=HOST | there)).names.values()
    assert [name.rpartition(", cpu on 2 cores of ")[2] for name in sorted(names)] == ends
