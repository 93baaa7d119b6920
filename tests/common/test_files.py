"""common/files.py: whole files or none, refusals before any work is done, the lock and the folder of the cache."""

import os
import subprocess
import sys
import threading

import pytest

from common.errors import UserError
from common.files import cache_folder, ensure_writable, locked, write_atomically


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_a_file_has_the_mode_that_the_users_umask_leaves(umask, mode, tmp_path):
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "new", b"content")
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == mode


def test_a_file_and_the_folders_above_it_are_written_and_no_temporary_one_stays(tmp_path):
    path = tmp_path / "new" / "folders" / "file.json"
    for content in (b"a long first content", b"second"):
        ensure_writable(path)
        write_atomically(path, content)
        assert path.read_bytes() == content
        ensure_writable(path)
        assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    ("failure", "raised", "said"),
    [
        (OSError(28, "No space left on device"), UserError, r"file can't .*No space left on device\): free some space"),
        (KeyboardInterrupt("stop"), KeyboardInterrupt, "stop"),
    ],
    ids=["full disk", "interrupted"],
)
def test_a_failed_write_leaves_the_old_file_whole_and_no_temporary_one(tmp_path, monkeypatch, failure, raised, said):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(descriptor):
        raise failure

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(raised, match=said):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("write", [ensure_writable, lambda path: write_atomically(path, b"content")])
def test_what_cannot_be_a_file_is_refused_with_path_and_remedy_and_nothing_is_left(tmp_path, refusal, write):
    (tmp_path / "taken").mkdir()
    assert str(tmp_path / "taken") in refusal(lambda: write(tmp_path / "taken"))
    (tmp_path / "file").write_text("not a folder")
    path = tmp_path / "file" / "record.json"
    text = refusal(lambda: write(path))
    assert text.startswith(f"{path} can't be written")
    assert "choose a folder that you may write to" in text
    assert sorted(tmp_path.iterdir()) == [tmp_path / "file", tmp_path / "taken"]
    assert (tmp_path / "file").read_text() == "not a folder"


def waiting_for(lock, *says):
    """A thread that waits for the lock, and what is set once it has it."""
    entered = threading.Event()

    def enter():
        with locked(lock, *says):
            entered.set()

    thread = threading.Thread(target=enter)
    thread.start()
    assert not entered.wait(0.5)
    return thread, entered


def test_a_second_one_waits_and_says_so(tmp_path, capsys):
    with locked(tmp_path / "lock", "Never printed."):
        second, entered = waiting_for(tmp_path / "lock", "Waiting.")
    assert entered.wait(30)
    second.join()
    assert capsys.readouterr().out == "Waiting.\n"


def test_a_child_that_has_the_lock_holds_it_on_where_its_parent_is_killed(tmp_path):
    program = """
import os, signal, subprocess, sys
from pathlib import Path
from common.errors import UserError
from common.files import locked
with locked(Path(sys.argv[1])) as lock:
    subprocess.Popen([sys.executable, "-c", "print('mine', flush=True); input()"], pass_fds=[lock])
    os.waitid(os.P_ALL, 0, os.WEXITED)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout.readline() == "mine\n"
        parent.kill()
        parent.wait()
        second, entered = waiting_for(tmp_path / "lock")
        parent.stdin.write("\n")
        parent.stdin.flush()
        assert entered.wait(30)
        second.join()


def test_the_cache_is_where_xdg_says_or_below_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for value, parent in ((str(tmp_path / "elsewhere"), "elsewhere"), ("", ".cache")):
        monkeypatch.setenv("XDG_CACHE_HOME", value)
        assert cache_folder() == tmp_path / parent / "lockstep"
