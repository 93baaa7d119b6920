"""A session of exchanges as a user starts it, and what it keeps where a strategy can't be traced."""

import dataclasses
import subprocess
import sys

import pytest

from common import catalogue
from common.catalogue import ROOT
from common.laboratory import exchanges
from common.laboratory.exchange import STEP, read_trace
from common.laboratory.exchange_plan import Planned, Scope, traced
from common.laboratory.record import read_record, read_records
from common.launch import python_for
from common.measurement.record import Record, declared
from common.strategy import ExchangeOptions

PARTS_OF_A_MODEL = [
    strategy
    for strategy in catalogue.strategies().values()
    if strategy.most_workers != 1 and strategy.family.tracer and not issubclass(strategy.options, ExchangeOptions)
]
"""Strategies that can be traced, and whose step has no exchange to switch off: a round of them is short."""

STRATEGY = PARTS_OF_A_MODEL[-1]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The session's folder, what it printed, and its report."""
    python_for(STRATEGY)
    folder = tmp_path_factory.mktemp("exchanges")
    report = folder / "report.pdf"
    command = [sys.executable, "-m", "common.laboratory.exchanges", "--results", str(folder), "--out", str(report)]
    few = ["--strategies", STRATEGY.name, "--preset", "digits", "--repetitions", "1", "--iterations", "3"]
    result = subprocess.run([*command, *few], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
    [results] = folder.glob("*-exchanges")
    return results, result.stdout, report


def test_the_messages_of_the_trace_are_what_the_replay_sends(made):
    folder, _, _ = made
    [path] = (folder / "traces").glob("*.messages")
    [replay] = read_records(folder / "replays").values()
    [cell] = replay.cells
    messages = [dataclasses.asdict(each) for each in read_trace(path).messages]
    assert (cell.status, cell.collective, cell.messages) == ("ok", STEP, messages)
    assert cell.size_bytes == sum(each["size_bytes"] for each in messages) > 0
    assert list(map(len, cell.entered_seconds)) == [3, 3]


def test_a_replay_names_the_whole_step_of_its_round(made):
    folder, printed, _ = made
    [replay] = read_records(folder / "replays").values()
    assert (replay.replayed["strategy"], replay.repetition) == (STRATEGY.name, 1)
    assert (folder / f"{replay.replayed['launch']}.json").exists()
    assert "3 launches: 3 ok, 0 unsupported, 0 failed." in printed


def test_the_report_tells_of_the_replay(made):
    _, _, report = made
    assert report.read_bytes().startswith(b"%PDF")
    assert "The exchange replayed alone" in report.with_suffix(".html").read_text()


def test_a_strategy_that_can_not_be_traced_is_kept_with_the_reason(monkeypatch, tmp_path):
    launch = traced(Scope(), STRATEGY)
    known = declared(STRATEGY, launch.task, launch.options, launch.workers)
    refused = Record(**known, status="unsupported", reason="It sends nothing.", started_at="2026-01-31T12:00:00+00:00")
    monkeypatch.setattr(exchanges.supervision, "run_planned", lambda *_: refused)
    exchanges.make(Planned("traces", launch), tmp_path)
    [path] = (tmp_path / "replays").iterdir()
    found = read_record(path)
    assert (found.status, found.reason, found.replayed["strategy"]) == (
        "unsupported",
        "It sends nothing.",
        STRATEGY.name,
    )
