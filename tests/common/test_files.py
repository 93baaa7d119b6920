"""common/files.py: whole files or none, and refusals before any work is done."""

import pytest

from common.files import ensure_writable, write_atomically


def test_a_file_and_the_folders_above_it_are_written(tmp_path):
    path = tmp_path / "new" / "folders" / "file.json"
    write_atomically(path, b"content")
    assert path.read_bytes() == b"content"
    assert path.stat().st_mode & 0o777 == 0o644


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
