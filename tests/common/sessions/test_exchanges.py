"""A session of exchanges as a user starts it, and what it keeps where a strategy can't be traced."""

import dataclasses
import subprocess
import sys

import pytest

from common.declarations import catalogue
from common.declarations.strategy import ExchangeOptions
from common.launching.launch import python_for
from common.measurement.record import declared
from common.paths import ROOT
from common.records import manifest
from common.records.collectives import CollectivesRecord
from common.records.files import read_record, read_records, write_record
from common.records.trace import STEP, Message, Trace, read_trace, trace_path
from common.records.training import Record
from common.sessions import exchanges
from common.sessions.exchange_plan import Planned, Scope, traced

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
    command = [sys.executable, "-m", "common.sessions.exchanges", "--results", str(folder), "--out", str(report)]
    few = ["--strategies", STRATEGY.name, "--preset", "digits", "--repetitions", "1", "--iterations", "3"]
    result = subprocess.run([*command, *few], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
    [results] = folder.glob("*-exchanges")
    return results, result.stdout, report


def test_the_messages_of_the_trace_are_what_the_replay_sends(made):
    folder, _, _ = made
    [path] = (folder / "traces").glob("*.messages")
    [replay] = read_records(folder / "replays", CollectivesRecord).values()
    [cell] = replay.cells
    messages = read_trace(path).messages
    assert (cell.status, cell.collective, cell.messages) == ("ok", STEP, messages)
    assert cell.size_bytes == sum(each.size_bytes for each in messages) > 0
    assert list(map(len, cell.entered_seconds)) == [3, 3]


def test_a_replay_names_the_whole_step_of_its_round(made):
    folder, _, _ = made
    [replay] = read_records(folder / "replays", CollectivesRecord).values()
    assert (replay.replayed.strategy, replay.repetition) == (STRATEGY.name, 1)
    assert (folder / f"{replay.replayed.launch}.json").exists()


def test_trace_steps_and_replay_count_as_launches(made):
    _, printed, _ = made
    assert "\n4 launches: 4 ok, 0 unsupported, 0 failed.\n" in printed


def test_the_report_tells_of_the_replay(made):
    _, _, report = made
    assert report.read_bytes().startswith(b"%PDF")
    assert "The exchange replayed alone" in report.with_suffix(".html").read_text()


def record_of(launch, **ended):
    """The record of a traced launch that ended so."""
    known = declared(STRATEGY, launch.task, launch.options, launch.workers)
    return Record(**known, **ended, started_at="2026-01-31T12:00:00+00:00")


@pytest.fixture
def trace(monkeypatch, tmp_path):
    """A function that makes a session's trace, which ends so and leaves these messages, if any; returns what is among
    the replays then.
    """
    launch = traced(Scope(), STRATEGY)

    def make(messages=(), **ended):
        def run_planned(planned, folder):
            assert planned == dataclasses.replace(launch, runner="tracer")
            path = folder / f"{launch.name}.json"
            path.parent.mkdir(exist_ok=True)
            write_record(path, record := record_of(launch, **ended))
            if messages:
                write_record(trace_path(path), trace_of(messages))
            return record

        monkeypatch.setattr(exchanges.supervision, "run_planned", run_planned)
        exchanges.make(Planned("traces", launch), tmp_path)
        return [read_record(path, CollectivesRecord) for path in sorted(tmp_path.glob("replays/*"))]

    return make


def trace_of(messages):
    return Trace(
        strategy=STRATEGY.name, workers=2, source="a profiler", library="x", data_type="float32", messages=[*messages]
    )


MESSAGE = Message(collective="all_reduce", size_bytes=8)


@pytest.mark.parametrize(
    ("ended", "kept"),
    [
        ({"status": "unsupported", "reason": "It sends nothing."}, ("unsupported", "It sends nothing.")),
        ({"status": "failed", "reason": "It broke."}, ("failed", "It broke.")),
        ({"status": "ok"}, ("failed", "It left no messages.")),
    ],
)
def test_a_strategy_that_can_not_be_traced_is_kept_among_the_replays_with_the_reason(trace, ended, kept):
    [found] = trace(**ended)
    assert (found.status, found.reason, found.replayed.strategy) == (*kept, STRATEGY.name)


def test_a_trace_without_messages_has_failed_for_the_session_too(trace, monkeypatch):
    made, make = [], exchanges.make
    monkeypatch.setattr(exchanges, "make", lambda *what: made.append(make(*what)))
    trace(status="ok")
    assert [(each.status, each.reason) for each in made] == [("failed", "It left no messages.")]


def test_what_says_why_there_was_no_trace_goes_when_there_is_one(trace, tmp_path):
    assert len(trace(status="ok")) == 1
    assert len(manifest.read(tmp_path)) == 1
    assert trace([MESSAGE], status="ok") == []
    assert manifest.check(tmp_path).missing == ()


def test_messages_of_an_earlier_trace_do_not_count_for_one_that_leaves_none(trace):
    assert trace([MESSAGE], status="ok") == []
    [found] = trace(status="ok")
    assert found.reason == "It left no messages."


def test_a_trace_without_its_messages_is_read_as_one_that_failed(tmp_path):
    launch = traced(Scope(), STRATEGY)
    path = tmp_path / "traces" / f"{launch.name}.json"
    path.parent.mkdir()
    write_record(path, record_of(launch, status="ok"))
    assert (exchanges.read(path).status, exchanges.read(path).reason) == ("failed", "It left no messages.")
    write_record(trace_path(path), trace_of([MESSAGE]))
    assert (exchanges.read(path).status, exchanges.read(path).reason) == ("ok", None)


def test_a_trace_that_was_refused_keeps_its_own_reason(tmp_path):
    path = tmp_path / "traces" / "refused.json"
    path.parent.mkdir()
    write_record(path, record_of(traced(Scope(), STRATEGY), status="unsupported", reason="It sends nothing."))
    assert (exchanges.read(path).status, exchanges.read(path).reason) == ("unsupported", "It sends nothing.")
