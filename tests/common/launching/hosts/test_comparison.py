"""A comparison over virtual hosts, as a user starts it: it is interrupted, goes on, and leaves nothing but results."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pandas
import psutil
import pytest

from common.contract.work import Work
from common.declarations import catalogue
from common.launching.launch import python_for
from common.paths import ROOT
from common.records.files import read_records
from common.records.training import Record
from tests.hosts import cluster_of, require_ssh
from tests.launching import is_running, wait_for

pytestmark = pytest.mark.hosts

STRATEGIES = [*catalogue.strategies().values()]
SPANNING = {each.launcher.name: each for each in reversed(STRATEGIES) if each.quick and each.launcher.across_hosts}
"""The first quick strategy of each launcher that spans hosts, the last launcher first."""

IN_ONE_PROCESS = next(each for each in STRATEGIES if each.work is Work.REPLICAS_IN_ONE_PROCESS)
"""The first strategy that can't span hosts."""


def ended_well(folder: Path) -> dict[Path, int]:
    """When each record of a launch that ended well was written."""
    records = folder.glob("results/*/*.json")
    return {path: path.stat().st_mtime_ns for path in records if '"status": "ok"' in path.read_text()}


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """The folder and the records of one that was interrupted in a launch over both hosts, and started again."""
    strategies = [IN_ONE_PROCESS, *SPANNING.values()]
    require_ssh()
    with cluster_of(2):
        for strategy in strategies:
            python_for(strategy)
    folder = tmp_path_factory.mktemp("comparison")
    names = [strategy.base for strategy in strategies if strategy.base] + [strategy.name for strategy in strategies]
    # Over a slow link, with gradients beside which all else that is sent is little.
    scope = ["--strategies", *dict.fromkeys(names), "--preset", "pathway", "--workers", "2", "--repetitions", "1"]
    hosts = ["--virtual-hosts", "2", "--bandwidth", "100mbit"]
    outputs = ["--results", str(folder / "results"), "--out", str(folder / "report.pdf")]
    command = [sys.executable, "-m", "common.sessions.compare", *hosts, *scope, *outputs]
    # A shell that has started these tests in the background has them, and so their children, ignore SIGINT.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    first = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True, preexec_fn=heed)
    wait_for(lambda: [*folder.glob("results/*/*-2h-*.log")] and ended_well(folder), seconds=1200)
    started = set(psutil.Process(first.pid).children(recursive=True))
    # As ^C does, which all of a terminal's programs get.
    os.killpg(first.pid, signal.SIGINT)
    assert first.wait(60) == 130
    assert not [process for process in started if is_running(process)]
    done = ended_well(folder)
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3000)
    assert again.returncode == 0, again.stdout + again.stderr
    assert all(path.stat().st_mtime_ns == changed for path, changed in done.items())
    [results] = (folder / "results").glob("*-quick")
    return folder, read_records(results, Record)


def test_what_spans_hosts_ends_well_on_both_and_what_cannot_is_unsupported_with_the_reason(compared):
    records = compared[1].values()
    ended = [record for record in records if record.status != "ok"]
    assert {(record.strategy, record.status, record.reason) for record in ended} == {
        (
            IN_ONE_PROCESS.name,
            "unsupported",
            f"{IN_ONE_PROCESS.name} has all of its workers in one process, which is on one host: start it there.",
        )
    }
    over_both = [record for record in records if record.status == "ok" and len(record.hosts) == 2]
    assert {record.strategy for record in over_both} == {strategy.name for strategy in SPANNING.values()}
    assert {record.checkpoint is None for record in over_both} == {True, False}
    for record in over_both:
        assert "2 hosts, 100 Mbit/s" in record.full_label
        assert [host.name for host in record.hosts] == ["host1", "host2"]
        assert all(host.clock_uncertainty_seconds > 0 for host in record.hosts)
        assert record.link.bytes_per_second == pytest.approx(100e6 / 8 * 1448 / 1514, rel=0.1)


def test_every_launch_follows_the_oracle_and_sends_from_host_to_host_what_the_formula_says(compared):
    folder, records = compared
    deviations = pandas.read_csv(folder / "report-tables/deviations.csv")
    same_maths = deviations.query("other_maths != other_maths and exchange")
    assert set(same_maths["verdict"]) == {"follows"}
    # Certificates are of digits, whose gradients are small.
    ratios = {
        name: sum(record.host_bytes_per_step) / record.formula_bytes_per_step
        for name, record in records.items()
        if len(record.hosts) == 2 and record.task.preset == "pathway"
        if record.exchange and record.formula_bytes_per_step
    }
    assert all(0.97 <= ratio <= 1.03 for ratio in ratios.values()), ratios
    assert {name.partition("-")[0] for name in ratios} == {strategy.name for strategy in SPANNING.values()}


def test_what_it_writes_tells_of_the_hosts_and_has_no_key(compared):
    folder, _ = compared
    assert (folder / "report.pdf").read_bytes().startswith(b"%PDF")
    page = (folder / "report.html").read_text()
    assert "The hosts" in page
    assert "host2" in page
    written = [path for path in folder.glob("results/*-quick/*") if path.is_file()]
    assert any(path.suffix == ".log" for path in written)
    for path in written:
        assert b"PRIVATE KEY" not in path.read_bytes()
        assert b"SECRET_KEY=" not in path.read_bytes()
