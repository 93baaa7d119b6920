"""tests/soak.py: what it looks for is found where it is."""

import random
import shutil
import subprocess

import pytest

from common.records import manifest
from common.sessions.folder import FINISHED
from tests import soak
from tests.launching import wait_for

RECORD = b'{"status": "ok"}'


@pytest.fixture
def folders(tmp_path):
    """The folder of a session that nobody disturbed, and that of one in an episode's results, which is the same."""
    reference, session = tmp_path / "reference", tmp_path / "results" / "session"
    reference.mkdir()
    (reference / "one.json").write_bytes(RECORD)
    (reference / FINISHED).touch()
    manifest.note(reference, [reference / "one.json"])
    shutil.copytree(reference, session)
    return reference, session


def lost(folders, kept=None, kind="session"):
    reference, session = folders
    return [*soak.lost(soak.Episode("one worker", kind, session.parents[1], [], kept=kept or {}), reference)]


def test_what_is_lost_changed_made_again_or_left_of_a_session_is_found(folders):
    record = folders[1] / "one.json"
    assert soak.noted_records(folders[1]) == [record]
    assert lost(folders, {record: RECORD}) == []
    record.write_bytes(RECORD + b"\n")
    assert lost(folders, {record: RECORD}) == ["one.json was made again", "one.json differs from what its launch left."]
    record.unlink()
    assert lost(folders) == ["one.json is missing", "one.json is missing."]
    record.write_bytes(RECORD)
    (folders[1] / ".one.json.abcd").touch()
    assert lost(folders) == [".one.json.abcd is left"]
    shutil.copytree(folders[1], folders[1].with_name("another"))
    assert lost(folders) == ["2 of 2 folders are finished"]


def test_a_launch_that_failed_for_want_of_room_leaves_its_record_alone(folders):
    reference, session = folders
    (reference / "one.safetensors").touch()
    assert lost(folders, kind="disk") == ["one.safetensors is missing"]
    (session / "one.json").write_bytes(b'{"status": "failed"}')
    manifest.note(session, [session / "one.json"])
    assert lost(folders, kind="disk") == []
    assert lost(folders) == ["one.safetensors is missing"]


def test_a_file_that_was_cut_is_refused_where_the_last_words_name_it(folders, tmp_path):
    session = folders[1]
    episode = soak.Episode("faults", "session", tmp_path, [], cut={"durations.csv"})
    (session / "durations.csv").touch()
    for words, refused in ((f"{session / 'durations.csv'} can't be read: delete it.", True), ("All is well.", False)):
        (tmp_path / "output").write_text(f"It goes on.\n{words}\n")
        assert soak.refused(episode) == [session / "durations.csv"] * refused


def test_a_process_that_is_left_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(soak, "_LEAVE_SECONDS", 0.2)
    before = soak.files(tmp_path)
    process = soak.start(["sleep", "30"], tmp_path)
    # Just after exec(2) the kernel doesn't tell a process's environment yet.
    wait_for(lambda: soak.processes(tmp_path.name))
    try:
        [sentence] = soak.left(tmp_path, before)
        assert sentence == f"still running: sleep ({process.pid})"
    finally:
        process.kill()
        process.wait()


def test_a_traceback_is_found_but_not_that_of_an_interrupted_import():
    text = "Traceback (most recent call last):\n  File\n{}: it\n"
    assert [*soak.tracebacks(text.format("ValueError") + text.format("KeyboardInterrupt"))] == [
        "a traceback: ValueError: it"
    ]


def test_tables_that_end_in_a_traceback_are_found_and_a_sentence_is_none(tmp_path, monkeypatch):
    assert soak.failure_of_tables(tmp_path, "one worker") == ""

    def read_results(folder):
        raise KeyError("windows")

    monkeypatch.setattr(soak, "read_results", read_results)
    assert soak.failure_of_tables(tmp_path, "one worker").startswith("KeyError in test_soak.py:")


def test_the_same_seed_makes_the_same_changes(folders):
    reference, session = folders
    for seed in range(20):
        assert soak.change(reference, random.Random(seed)) == soak.change(session, random.Random(seed))
        assert subprocess.run(["diff", "-r", reference, session]).returncode == 0
