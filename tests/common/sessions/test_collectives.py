"""A session of the laboratory as a user starts it: over a slow link, and among four ranks."""

import subprocess
import sys

import pytest

from common.declarations import catalogue
from common.launching.launch import python_for
from common.paths import ROOT
from common.records import collective_rows
from common.records.collectives import CollectivesRecord
from common.records.files import read_records
from tests.hosts import cluster_of, require_ssh
from tests.launching import require_private_networks

WITH_FORMULA = [
    library
    for library in catalogue.libraries().values()
    if not library.needs_gpus
    and not library.one_process
    and (algorithm := library.algorithm("all_reduce", 2**20))
    and algorithm.sent_bytes
]
"""Libraries whose all-reduce has a formula."""


def session(folder, *options):
    """The records, what was printed and the report's file, of a session with these options."""
    report = folder / "report.pdf"
    where = ["--results", str(folder), "--out", str(report)]
    command = [sys.executable, "-m", "common.sessions.collectives", *where, "--repetitions", "1", *options]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert result.returncode == 0, result.stdout + result.stderr
    [results] = folder.glob("*-collectives")
    return read_records(results, CollectivesRecord), result.stdout, report


@pytest.fixture(scope="module")
def among_four(tmp_path_factory):
    for library in WITH_FORMULA:
        python_for(library)
    names = [library.name for library in WITH_FORMULA]
    few = ["--workers", "4", "--collectives", "all_reduce", "--sizes", "1M", "-n", "3", "-w", "1"]
    return session(tmp_path_factory.mktemp("four"), "--libraries", *names, *few)


@pytest.fixture(scope="module")
def over_a_slow_link(tmp_path_factory):
    require_ssh()
    with cluster_of(2):
        python_for(WITH_FORMULA[0])
    hosts = ["--virtual-hosts", "2", "--bandwidth", "100mbit"]
    few = ["--collectives", "all_reduce", "--sizes", "4M", "-n", "5", "-w", "1"]
    return session(tmp_path_factory.mktemp("link"), "--libraries", WITH_FORMULA[0].name, *hosts, *few)


def test_four_ranks_send_what_the_formula_says(among_four):
    require_private_networks()
    records, _, _ = among_four
    rows = collective_rows.rows(records)
    assert {row.case.library for row in rows} == {library.name for library in WITH_FORMULA}
    for row in rows:
        assert row.sent_bytes_per_rank == pytest.approx(row.formula_bytes_per_rank, rel=0.03), row.case.title


def test_the_terminal_shows_a_table_with_every_library(among_four):
    records, printed, _ = among_four
    assert "all_reduce, 4 ranks" in printed
    for library in WITH_FORMULA:
        assert library.name in printed
    assert f"{len(records)} launches: {len(records)} ok, 0 unsupported, 0 failed." in printed


def test_the_report_is_written(among_four):
    _, _, report = among_four
    assert report.read_bytes().startswith(b"%PDF")
    for library in WITH_FORMULA:
        assert library.name in report.with_suffix(".html").read_text()


def test_a_shaped_link_shows_as_its_rate(over_a_slow_link):
    records, _, _ = over_a_slow_link
    [record] = [record for record in records.values() if len(record.hosts) == 2]
    [row] = [row for row in collective_rows.rows(records) if row.case.hosts == 2]
    assert row.formula_bytes_per_rank / row.seconds.median == pytest.approx(100e6 / 8 * 1448 / 1514, rel=0.1)
    assert record.link.bytes_per_second == pytest.approx(100e6 / 8 * 1448 / 1514, rel=0.1)
    assert row.case.placement == "2 hosts, 100 Mbit/s"
