"""common/sessions/folder.py: what was interrupted goes on in its folder, and nothing else does."""

import pytest

from common.sessions import identity
from common.sessions.folder import kept_variables, order_seed, unfinished_or_new, variables_in_words


@pytest.fixture(autouse=True)
def _without_variables(monkeypatch):
    """Nothing that frameworks obey is set."""
    for name in identity.obeyed_variables():
        monkeypatch.delenv(name)


def begun(results, name, asked_for="as this", **files):
    folder = results / name
    folder.mkdir(parents=True)
    files = {"options.txt": asked_for, "fingerprint.txt": identity.fingerprint({}), **files}
    for file, text in files.items():
        (folder / file).write_text(text)
    return folder


def found(results):
    return unfinished_or_new(results, "quick", "as this")


def test_the_newest_unfinished_folder_goes_on(tmp_path):
    begun(tmp_path, "20260101T000000-quick")
    newest = begun(tmp_path, "20260102T000000-quick")
    assert found(tmp_path) == newest


def test_what_is_finished_or_of_another_kind_or_was_begun_otherwise_does_not_go_on(tmp_path):
    others = {
        begun(tmp_path, "20260101T000000-quick", finished=""),
        begun(tmp_path, "20260102T000000-full"),
        begun(tmp_path, "20260103T000000-quick", asked_for="as that"),
    }
    (tmp_path / "20260104T000000-quick").mkdir()
    new = found(tmp_path)
    assert new not in others
    assert new.name.endswith("-quick")
    assert (new / "options.txt").read_text() == "as this"


def test_a_new_folder_is_made_where_there_is_none_and_goes_on_from_then(tmp_path):
    new = found(tmp_path / "results")
    assert found(tmp_path / "results") == new


def test_the_order_is_that_with_which_the_folder_was_begun(tmp_path):
    assert order_seed(tmp_path, 5) == 5
    assert order_seed(tmp_path, 6) == order_seed(tmp_path, None) == 5


def test_where_no_order_is_asked_for_every_folder_has_its_own(tmp_path):
    seeds = [order_seed(tmp_path / name, None) for name in "abc"]
    assert len({*seeds}) == 3
    assert [order_seed(tmp_path / name, None) for name in "abc"] == seeds


def test_a_folder_of_other_code_packages_or_variables_does_not_go_on_and_that_is_said(tmp_path, monkeypatch, capsys):
    older = begun(tmp_path, "20260101T000000-quick")
    assert found(tmp_path) == older
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    new = found(tmp_path)
    assert new != older
    said = capsys.readouterr().out
    assert "Frameworks obey variables that are set here: TF_ENABLE_ONEDNN_OPTS=0." in said
    assert f"{older} doesn't go on: code, packages, variables or machine changed since it was begun." in said
    assert found(tmp_path) == new
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS")
    monkeypatch.setattr(identity, "code_digest", lambda: "other code")
    found(tmp_path)
    assert f"{new} doesn't go on" in capsys.readouterr().out


def test_a_new_folder_keeps_the_variables(tmp_path, monkeypatch):
    assert kept_variables(found(tmp_path / "without")) == {}
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    new = found(tmp_path / "with")
    assert kept_variables(new) == {"OMP_WAIT_POLICY": "active"}
    assert kept_variables(tmp_path) is None
    assert [variables_in_words(each) for each in ({}, kept_variables(new), None)] == [
        "none",
        "OMP_WAIT_POLICY=active",
        "unknown: the folder has no variables.txt",
    ]


def test_whatever_a_variable_holds_is_kept_and_shown_on_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LD_PRELOAD", "a\n\udc80")
    new = found(tmp_path)
    assert kept_variables(new) == {"LD_PRELOAD": "a\n\udc80"}
    assert capsys.readouterr().out.endswith("LD_PRELOAD='a\\n\\udc80'.\n")
    assert found(tmp_path) == new


@pytest.mark.parametrize("text", ["", "[]", "{"])
def test_damaged_variables_are_refused(tmp_path, refusal, text):
    (tmp_path / "variables.txt").write_text(text)
    assert "delete it or run the session again" in refusal(lambda: kept_variables(tmp_path))
