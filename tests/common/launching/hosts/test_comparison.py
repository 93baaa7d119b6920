"""A comparison over virtual hosts, as a user starts it: it is interrupted, goes on, and leaves nothing but results."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas
import psutil
import pytest

from common.contract.work import Work
from common.declarations import catalogue
from common.declarations.strategy import Strategy
from common.launching.launch import python_for
from common.paths import ROOT
from common.records.files import read_records
from common.records.header import Virtual
from common.records.training import Record
from tests.hosts import cluster_of, require_ssh
from tests.launching import is_running, wait_for

pytestmark = pytest.mark.hosts

QUICK = [strategy for strategy in catalogue.strategies().values() if strategy.quick]
SPANNING = {strategy.launcher.name: strategy for strategy in reversed(QUICK) if strategy.launcher.across_hosts}
"""The first quick strategy of each launcher that spans hosts."""

FIRST = next(iter(reversed(SPANNING.values())))

IN_ONE_PROCESS = next(
    strategy
    for strategy in catalogue.strategies().values()
    if strategy.work is Work.REPLICAS_IN_ONE_PROCESS and strategy.base == FIRST.base
)
"""What can't span hosts, of the same framework."""


@dataclass(frozen=True)
class Compared:
    """What a comparison over two virtual hosts has left."""

    records: dict[str, Record]
    folder: Path
    report: Path

    def table(self, name: str) -> pandas.DataFrame:
        """A table of the report's, by its name."""
        return pandas.read_csv(self.report.with_name(f"{self.report.stem}-tables") / f"{name}.csv")


def sent_over_formula(records: dict[str, Record]) -> dict[str, float]:
    """By launch over two hosts what they sent each other, over the bytes of the formula, where there is one."""
    return {
        name: sum(record.host_bytes_per_step) / record.formula_bytes_per_step
        for name, record in records.items()
        if len(record.hosts) == 2 and record.exchange and record.formula_bytes_per_step
    }


def command_for(folder: Path, strategies: list[Strategy], *options: str, preset: str = "digits") -> list[str]:
    names = [strategy.base for strategy in strategies if strategy.base] + [strategy.name for strategy in strategies]
    scope = ["--strategies", *dict.fromkeys(names), "--preset", preset, "--workers", "2", "--repetitions", "1"]
    outputs = ["--results", str(folder / "results"), "--out", str(folder / "report.pdf")]
    return [sys.executable, "-m", "common.sessions.compare", "--virtual-hosts", "2", *options, *scope, *outputs]


def require_virtual_hosts(strategies: list[Strategy]) -> None:
    require_ssh()
    with cluster_of(2):
        for strategy in strategies:
            python_for(strategy)


def ended_well(folder: Path) -> dict[Path, int]:
    """When each record of a launch that ended well was written."""
    records = folder.glob("results/*/*.json")
    return {path: path.stat().st_mtime_ns for path in records if '"status": "ok"' in path.read_text()}


def what_remains(folder: Path) -> Compared:
    [results] = (folder / "results").glob("*-quick")
    return Compared(read_records(results, Record), results, folder / "report.pdf")


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """One that was interrupted in the middle of a launch over both hosts, and started again."""
    strategies = [IN_ONE_PROCESS, FIRST]
    require_virtual_hosts(strategies)
    folder = tmp_path_factory.mktemp("comparison")
    command = command_for(folder, strategies)
    # A shell that has started these tests in the background has them, and so their children, ignore SIGINT.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    first = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True, preexec_fn=heed)
    wait_for(lambda: [*folder.glob("results/*/*-2h-*.log")] and ended_well(folder), seconds=600)
    started = set(psutil.Process(first.pid).children(recursive=True))
    # As ^C does, which all of a terminal's programs get.
    os.killpg(first.pid, signal.SIGINT)
    assert first.wait(60) == 130
    assert not [process for process in started if is_running(process)]
    done = ended_well(folder)
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert again.returncode == 0, again.stdout + again.stderr
    assert all(path.stat().st_mtime_ns == changed for path, changed in done.items())
    return what_remains(folder)


def test_what_spans_hosts_ends_well_on_both_and_what_cannot_is_unsupported_with_the_reason(compared):
    ended = [record for record in compared.records.values() if record.status != "ok"]
    assert {(record.strategy, record.status, record.reason) for record in ended} == {
        (
            IN_ONE_PROCESS.name,
            "unsupported",
            f"{IN_ONE_PROCESS.name} has all of its workers in one process, which is on one host: start it there.",
        )
    }
    assert all(record.virtual == Virtual(delay_seconds=0.0) for record in compared.records.values())
    over_both = [record for record in compared.records.values() if record.status == "ok" and len(record.hosts) == 2]
    assert {record.checkpoint is None for record in over_both} == {True, False}
    for record in over_both:
        assert record.full_label.endswith("2 hosts")
        assert [host.name for host in record.hosts] == ["host1", "host2"]
        assert all(host.clock_uncertainty_seconds > 0 for host in record.hosts)
        assert record.link.bytes_per_second > 1e6


def test_every_launch_follows_the_oracle_and_sends_from_host_to_host_what_the_formula_says_and_headers(compared):
    verdicts = compared.table("deviations").groupby("exchange")["verdict"].agg(set)
    assert verdicts[True] == {"follows"}
    assert "deviates" not in verdicts.get(False, set())
    ratios = sent_over_formula(compared.records)
    assert ratios
    assert all(1.0 <= ratio <= 1.07 for ratio in ratios.values()), ratios


def test_what_it_writes_tells_of_the_hosts_and_has_no_key(compared):
    assert compared.report.read_bytes().startswith(b"%PDF")
    page = compared.report.with_suffix(".html").read_text()
    assert "The hosts" in page
    assert "host2" in page
    written = [path for path in compared.folder.iterdir() if path.is_file()]
    assert any(path.suffix == ".log" for path in written)
    for path in written:
        assert b"PRIVATE KEY" not in path.read_bytes()
        assert b"SECRET_KEY=" not in path.read_bytes()


def test_every_launcher_that_spans_hosts_keeps_to_its_formula_over_a_slow_link(tmp_path):
    strategies = [*SPANNING.values()]
    require_virtual_hosts(strategies)
    # With gradients so large that what coordinates the workers is little beside them.
    command = command_for(tmp_path, strategies, "--bandwidth", "100mbit", preset="pathway")
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=3000)
    assert result.returncode == 0, result.stdout + result.stderr
    found = what_remains(tmp_path)
    assert {record.status for record in found.records.values()} == {"ok"}
    over_both = [record for record in found.records.values() if len(record.hosts) == 2]
    assert {record.strategy for record in over_both} == {strategy.name for strategy in strategies}
    for record in over_both:
        assert record.link.bytes_per_second == pytest.approx(100e6 / 8 * 1448 / 1514, rel=0.1)
        assert "2 hosts, 100 Mbit/s" in record.full_label
    # Certificates are of digits, whose gradients are small.
    large = {name: record for name, record in found.records.items() if record.task.preset == "pathway"}
    ratios = sent_over_formula(large)
    assert all(0.97 <= ratio <= 1.03 for ratio in ratios.values()), ratios
    assert {name.partition("-")[0] for name in ratios} == {strategy.name for strategy in strategies}
    same_maths = found.table("deviations").query("other_maths != other_maths and exchange")
    assert set(same_maths["verdict"]) == {"follows"}
