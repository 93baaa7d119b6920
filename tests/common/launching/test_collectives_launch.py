"""common/launching/collectives_launch.py: messages are replayed as they were sent, or refused before anything
starts."""

import sys
from pathlib import Path

import pytest

from common.launching import launch as common_launch
from common.launching.collectives_launch import prepare
from common.records.files import write_record
from common.records.trace import Message, Trace


@pytest.fixture
def path(tmp_path):
    """A file with the messages of a step."""
    found = tmp_path / "trace"
    messages = [Message(collective="all_reduce", size_bytes=12)]
    trace = Trace(strategy="mine", workers=3, source="x", library="gloo", data_type="float64", messages=messages)
    write_record(found, trace)
    return found


def test_messages_are_replayed_as_they_were_sent(path, monkeypatch):
    monkeypatch.setattr(common_launch, "python_for", lambda library: Path(sys.executable))
    options = ["--messages", str(path), "--data-type", "float64", "--workers", "3"]
    library, sweep, command = prepare(["gloo", *options])
    assert (library.name, sweep.messages, sweep.workers) == ("gloo", path, 3)
    assert command[-8:] == [*options, "--workers", "3"]


@pytest.mark.parametrize(
    ("library", "options", "said"),
    [
        ("gloo", ["--data-type", "float64"], "has float64 of 3 ranks: give --workers 3 --data-type float64."),
        ("gloo", ["--workers", "3"], "has float64 of 3 ranks: give --workers 3 --data-type float64."),
        ("mpi", ["--workers", "3", "--data-type", "float64"], "is what gloo carried: replay it by gloo."),
    ],
    ids=["other workers", "another type", "another library"],
)
def test_messages_that_others_sent_are_refused_with_what_to_give(path, library, options, said, refusal):
    assert refusal(lambda: prepare([library, "--messages", str(path), *options])) == f"{path} {said}"


def test_messages_that_are_not_there_are_refused(tmp_path, refusal):
    path = tmp_path / "none"
    assert str(path) in refusal(lambda: prepare(["gloo", "--messages", str(path)]))
