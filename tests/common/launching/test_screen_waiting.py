"""common/launching/screen.py: a launch without a step yet says what it waits for, and then no more."""

import queue

import pytest

from common.launching import screen
from common.measurement import startup


@pytest.fixture
def notes(monkeypatch):
    """What is noted, as it comes; the pauses are short."""
    noted = queue.Queue()
    monkeypatch.setattr(screen, "print_note", noted.put)
    monkeypatch.setattr(screen, "_FIRST_SECONDS", 0.01)
    monkeypatch.setattr(screen, "_NEXT_SECONDS", 0.01)
    return noted


def test_the_first_note_comes_within_ten_seconds_and_others_at_most_every_thirty():
    assert screen._FIRST_SECONDS < 10
    assert screen._NEXT_SECONDS >= 30


def test_a_launch_says_how_many_of_its_processes_are_up_until_one_has_trained(notes, tmp_path, monkeypatch):
    monkeypatch.setenv(startup.FOLDER, str(tmp_path))
    with screen.waiting(tmp_path, 64, 600.0):
        assert notes.get(timeout=60) == "no step yet: 0 of 64 processes are up, 600 s until the deadline."
        for process in range(3):
            startup.leave_word(f"{startup.UP}{process}")
        while (note := notes.get(timeout=60)).startswith("no step yet: 0"):
            pass
        assert "3 of 64 processes are up" in note or "1 of 64" in note or "2 of 64" in note
        startup.leave_word(startup.FIRST_STEP)
    while not notes.empty():
        notes.get()
    with screen.waiting(tmp_path, 64, 600.0), pytest.raises(queue.Empty):
        notes.get(timeout=0.5)
