"""common/launching/screen.py: a launch without a step yet says what it waits for, and the last thing on the screen is
one sentence; what hid it is in the log."""

import os
import queue
import re

import pytest

from common.launching import exit_cause, screen
from common.launching.screen import ErrorOutput
from common.measurement import startup

OURS = "lockstep: failed: rank 1: /data/weights can't be written (No space left on device): free some space.\n"
LOST = "lockstep: failed: rank 0 lost another worker\n"
PAGE = "Traceback (most recent call last):\ntorch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n=====\n"
ENDED = "lockstep: failed: numpy_threads ended with status 1"
IN_LOG = " (all error output: {log}).\n"


@pytest.mark.parametrize(
    ("texts", "status", "folder", "shown"),
    [
        pytest.param(["a warning\n", OURS, LOST, PAGE], 1, "new", f"a warning\n{OURS[:-2]}{IN_LOG}", id="a lost rank"),
        pytest.param([PAGE, " "], 1, "new", f"{PAGE} \n{ENDED}{IN_LOG}", id="a page whose last line is open"),
        pytest.param(["lockstep: a batch of 63\n", PAGE], 1, "new", f"lockstep: a batch of 63{IN_LOG}", id="a refusal"),
        pytest.param([OURS, OURS], 1, "new", OURS, id="nothing but our sentences"),
        pytest.param([OURS, PAGE], 1, "file", f"{OURS}{PAGE}{OURS}", id="a log that can't be kept"),
        pytest.param([OURS, PAGE], 0, "new", f"{OURS}{PAGE}", id="a launch that goes on after a lost worker"),
    ],
)
def test_the_last_thing_on_the_screen_is_our_sentence_once_and_only_what_a_log_has_is_hidden(
    texts, status, folder, shown, tmp_path, capfd
):
    (tmp_path / "file").touch()
    log, errors = tmp_path / folder / "run.log", ErrorOutput()
    with errors.stream() as stream:
        for text in texts:
            os.write(stream, text.encode())
    if status:
        errors.conclude("numpy_threads", exit_cause.read(status, 60.0, errors.text), log)
    else:
        errors.show_rest()
    assert capfd.readouterr().err == shown.format(log=log)
    assert (log.read_text() if log.exists() else "") == ("".join(texts) if IN_LOG in shown else "")


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
