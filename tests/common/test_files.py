"""common/files.py: whole files or none, refusals before any work is done, the lock and the folder of the cache."""

import os
import subprocess
import sys
import threading

import pytest

from common.files import cache_folder, ensure_writable, locked, write_atomically
from common.paths import ROOT
from tests.launching import require_private_networks


def test_a_file_and_the_folders_above_it_are_written(tmp_path):
    path = tmp_path / "new" / "folders" / "file.json"
    write_atomically(path, b"content")
    assert path.read_bytes() == b"content"


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_file_has_the_mode_that_the_users_umask_leaves(umask, mode, tmp_path):
    before = os.umask(umask)
    try:
        write_atomically(tmp_path / "new", b"content")
        write_atomically(tmp_path / "new", b"again")
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == mode


def test_a_file_is_replaced_and_no_temporary_one_stays(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"a long first content")
    write_atomically(path, b"second")
    assert path.read_bytes() == b"second"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file_whole_and_no_temporary_one(tmp_path, monkeypatch, refusal):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def full_disk(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    text = refusal(lambda: write_atomically(path, b"new"))
    assert str(path) in text
    assert "No space left on device" in text
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_write_leaves_the_old_file_whole_and_no_temporary_one(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def interrupted(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_in_the_files_place_is_refused_and_no_temporary_file_stays(tmp_path, refusal):
    path = tmp_path / "taken"
    path.mkdir()
    assert str(path) in refusal(lambda: write_atomically(path, b"content"))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("write", [ensure_writable, lambda path: write_atomically(path, b"content")])
def test_a_path_below_a_file_is_refused_with_path_and_remedy(tmp_path, refusal, write):
    (tmp_path / "file").write_text("not a folder")
    path = tmp_path / "file" / "record.json"
    text = refusal(lambda: write(path))
    assert text.startswith(f"{path} can't be written")
    assert "choose a folder that you may write to" in text
    assert (tmp_path / "file").read_text() == "not a folder"


def test_a_writable_path_passes_and_nothing_is_left_at_it(tmp_path):
    path = tmp_path / "new" / "record.json"
    ensure_writable(path)
    assert path.parent.is_dir()
    assert list(path.parent.iterdir()) == []


def test_a_file_that_is_there_already_can_be_replaced(tmp_path):
    path = tmp_path / "record.json"
    path.write_text("old")
    ensure_writable(path)
    assert path.read_text() == "old"


def test_a_folder_in_the_files_place_is_refused_before_any_work_is_done(tmp_path, refusal):
    assert str(tmp_path) in refusal(lambda: ensure_writable(tmp_path))


def test_a_second_one_waits_and_says_so(tmp_path, capsys):
    entered = threading.Event()

    def enter():
        with locked(tmp_path / "lock", "Waiting."):
            entered.set()

    with locked(tmp_path / "lock", "Never printed."):
        second = threading.Thread(target=enter)
        second.start()
        assert not entered.wait(0.5)
    assert entered.wait(30)
    second.join()
    assert capsys.readouterr().out == "Waiting.\n"


def test_a_child_that_has_the_lock_holds_it_on_where_its_parent_is_killed(tmp_path):
    program = """
import os, signal, subprocess, sys
from pathlib import Path
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
        entered = threading.Event()

        def enter():
            with locked(tmp_path / "lock"):
                entered.set()

        waiting = threading.Thread(target=enter)
        waiting.start()
        assert not entered.wait(0.5)
        parent.stdin.write("\n")
        parent.stdin.flush()
        assert entered.wait(30)
        waiting.join()


def test_the_cache_is_where_xdg_says_or_below_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    assert cache_folder() == tmp_path / "elsewhere" / "lockstep"
    monkeypatch.setenv("HOME", str(tmp_path))
    for absent in (lambda: monkeypatch.setenv("XDG_CACHE_HOME", ""), lambda: monkeypatch.delenv("XDG_CACHE_HOME")):
        absent()
        assert cache_folder() == tmp_path / ".cache" / "lockstep"


def test_on_a_full_disk_the_remedy_is_space_and_what_was_there_stays(tmp_path):
    require_private_networks()
    program = (
        "import sys; from pathlib import Path; from common.files import write_atomically; path = Path(sys.argv[1]);"
        "write_atomically(path, b'old');"
        "\ntry: write_atomically(path, bytes(2**16))"
        "\nexcept Exception as error: print(error, path.read_text(), len([*path.parent.iterdir()]))"
    )
    mount = f'mount -t tmpfs -o size=16k tmpfs "{tmp_path}" && exec "$@"'
    path = tmp_path / "record.json"
    command = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        mount,
        "sh",
        sys.executable,
        "-c",
        program,
    ]
    printed = subprocess.run([*command, str(path)], cwd=ROOT, capture_output=True, text=True)
    assert "(No space left on device): free some space. old 1" in printed.stdout, printed.stderr
