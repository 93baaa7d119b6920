"""common/launching/screen.py: a launch without a step yet says what it waits for, and the last thing on the screen is
one sentence; what hid it is in the log."""

import os
import queue
import re

import pytest

from common.launching import exit_cause, screen
from common.launching.screen import ErrorOutput
from common.measurement import startup

OURS = "lockstep: failed: rank 1: /data/weights can't be written (No space left on device): free some space."
PAGE = "Traceback (most recent call last):\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n=====\n"


def launch(log, *texts, status=1):
    """Have processes write these texts, one after the other, and the launch end with this status."""
    errors = ErrorOutput()
    with errors.stream() as stream:
        for text in texts:
            os.write(stream, text.encode())
    if status:
        errors.conclude("numpy_threads", exit_cause.read(status, 60.0, errors.text), log)
    else:
        errors.show_rest()


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        # Whoever loses the rank says so as well.
        (
            ["a warning\n", f"{OURS}\n", "lockstep: failed: rank 0 lost another worker\n", PAGE],
            f"a warning\n{OURS[:-1]} (all error output: {{log}}).\n",
        ),
        # A page whose last line is open.
        ([PAGE, " "], f"{PAGE} \nlockstep: failed: numpy_threads ended with status 1 (all error output: {{log}}).\n"),
        (["lockstep: a batch of 63\n", PAGE], "lockstep: a batch of 63 (all error output: {log}).\n"),
    ],
)
def test_the_last_thing_on_the_screen_is_our_sentence_once_and_the_log_has_everything(texts, shown, tmp_path, capfd):
    log = tmp_path / "results" / "run.log"
    launch(log, *texts)
    assert capfd.readouterr().err == shown.format(log=log)
    assert log.read_text() == "".join(texts)


@pytest.mark.parametrize(
    ("texts", "status", "shown"),
    [
        pytest.param([OURS, OURS], 1, f"{OURS}\n", id="nothing but our sentences"),
        pytest.param([OURS, PAGE], 1, f"{OURS}\n{PAGE}\n{OURS}\n", id="a log that can't be kept"),
        pytest.param([OURS, PAGE], 0, f"{OURS}\n{PAGE}\n", id="a launch that goes on after a lost worker"),
    ],
)
def test_without_a_log_nothing_is_hidden(texts, status, shown, tmp_path, capfd):
    (tmp_path / "file").touch()
    launch(tmp_path / "file" / "run.log", *(f"{text}\n" for text in texts), status=status)
    assert capfd.readouterr().err == shown


def test_a_launch_says_how_many_of_its_processes_are_up_until_one_has_trained(tmp_path, monkeypatch):
    notes = queue.Queue()
    monkeypatch.setattr(screen, "print_note", notes.put)
    monkeypatch.setattr(screen, "_FIRST_SECONDS", 0.01)
    monkeypatch.setattr(screen, "_NEXT_SECONDS", 0.01)
    monkeypatch.setenv(startup.FOLDER, str(tmp_path))
    with screen.waiting(tmp_path, 64, 600.0):
        first = re.fullmatch(
            r"no step yet: 0 of 64 processes are up, (\d+) s until the deadline\.", notes.get(timeout=60)
        )
        # A busy machine lets it say that late.
        assert 540 <= int(first[1]) <= 600
        for process in range(3):
            startup.leave_word(f"{startup.UP}{process}")
        while not notes.get(timeout=60).startswith("no step yet: 3 of 64 processes are up"):
            pass
        startup.leave_word(startup.FIRST_STEP)
    while not notes.empty():
        notes.get()
    with screen.waiting(tmp_path, 64, 600.0), pytest.raises(queue.Empty):
        notes.get(timeout=0.5)
