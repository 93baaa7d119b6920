"""common/sessions/other_checkout.py: a commit is found or refused in one sentence, and its files come and go beside
ours."""

import dataclasses
import os
import re
from contextlib import suppress

import pytest

from common.paths import ROOT
from common.records.header import SCHEMA_VERSION
from common.sessions import other_checkout
from common.sessions.other_checkout import RECORDS, Against, find
from tests.common.conftest import commit, git

HEADER, EARLIER = "common/records/header.py", "common/records/training.py"
"""Where commits have the version of their records."""


@pytest.fixture
def root(tmp_path):
    """A checkout of two commits, which a loop tells apart, in a folder with a difficult name."""
    folder = tmp_path / "the chèckout"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    (folder / ".gitignore").write_text(".nox/\nresults/\n")
    commit(folder, {HEADER: f"SCHEMA_VERSION = {SCHEMA_VERSION}\n", "loop.py": "slow"})
    commit(folder, {"loop.py": "fast"})
    (folder / ".nox" / "some").mkdir(parents=True)
    (folder / ".nox" / "some" / "python").write_text("a program")
    return folder


def against(folder, rev="HEAD~1"):
    return find(rev, 0.05, folder)


def test_a_commit_is_found_by_any_name_that_git_takes(root):
    earlier = git(root, "rev-parse", "HEAD~1")
    git(root, "tag", "--annotate", "--message", "a tag", "v1", earlier)
    for rev in ("HEAD~1", "v1", earlier[:8]):
        assert against(root, rev) == Against(rev, earlier, git(root, "rev-parse", "HEAD"), 0.05)


@pytest.mark.parametrize("rev", ["nowhere", "", "-x", "HEAD..HEAD~1", "HEAD^{tree}", "HEAD~9"])
def test_what_names_no_commit_is_refused(root, refusal, rev):
    assert refusal(lambda: against(root, rev)).startswith(f"There is no commit '{rev}' here: ")


def test_what_git_cannot_do_here_is_refused_with_the_remedy(root, tmp_path, refusal, monkeypatch):
    for folder in (tmp_path, root / "common"):
        assert refusal(lambda folder=folder: against(folder)).startswith(f"{folder} isn't a git checkout")
    with monkeypatch.context() as context:
        context.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
        assert refusal(lambda: against(root)).startswith(f"git doesn't trust {root}, which another user owns: run")
    monkeypatch.setenv("PATH", "/nowhere")
    assert refusal(lambda: against(root)) == "--against-commit needs git, which isn't installed: install it."


@pytest.mark.parametrize("tolerance", [-0.01, float("inf"), float("nan")])
def test_a_tolerance_that_cannot_be_meant_is_refused(tmp_path, refusal, tolerance):
    assert refusal(lambda: find("HEAD~1", tolerance, tmp_path)).startswith(f"--tolerance {tolerance:g}: ")


# What differs


@pytest.mark.parametrize(
    ("name", "text", "differs"),
    [
        ("loop.py", "faster", True),
        ("new.py", "x = 1", True),
        ("notes.txt", "x = 1", False),
        ("results/new.py", "x = 1", False),
    ],
)
def test_changes_of_code_are_compared_with_the_commit_that_they_were_made_on(root, refusal, name, text, differs):
    (root / name).parent.mkdir(exist_ok=True)
    (root / name).write_text(text)
    assert against(root).here.endswith("+changes") == differs
    if differs:
        assert against(root, "HEAD").here == f"{git(root, 'rev-parse', 'HEAD')}+changes"
    else:
        assert refusal(lambda: against(root, "HEAD")).startswith("Nothing differs between HEAD and the files here")


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({HEADER: "SCHEMA_VERSION = 1"}, "writes records of schema version 1, .* name a later commit"),
        ({EARLIER: f"SCHEMA_VERSION = {SCHEMA_VERSION + 1}"}, "writes records of schema .* check that commit out"),
        ({}, "has no records that could be compared: name a later commit"),
        ({EARLIER: f"SCHEMA_VERSION = {SCHEMA_VERSION - 1}"}, None),
        ({HEADER: (ROOT / HEADER).read_text(encoding="utf-8")}, None),
    ],
)
def test_records_of_this_version_and_of_the_one_before_can_be_compared_and_no_others(root, refusal, files, complaint):
    (root / HEADER).unlink()
    earlier = commit(root, {"loop.py": "faster"} | files)
    commit(root, {"loop.py": "fast again"})
    if complaint:
        assert re.match(f"HEAD~1 {complaint}", refusal(lambda: against(root)))
    else:
        assert against(root).commit == earlier


def test_pins_and_builds_that_the_environments_do_not_have_are_named(root, declare, monkeypatch):
    family = dataclasses.replace(declare().family, build="some_impl/building/build.py")
    monkeypatch.setattr(other_checkout, "families", lambda: {family.environment: family})
    pinning = "[dependency-groups]\nbase = {}\nall = [{{ include-group = 'base' }}]\n".format
    commit(root, {"pyproject.toml": pinning(["one==1", "two==2", "three==3"])})
    commit(root, {"pyproject.toml": pinning(["one==1", "two==2.1", "four==4"])})
    [pins] = against(root).notes
    assert "though HEAD~1 pins three==3, two==2." in pins
    commit(root, {"some_impl/building/flags.py": "-O3"})
    [build] = against(root).notes
    assert "some_impl/building built, which differs in HEAD~1" in build


# The other checkout


@pytest.fixture
def folder(tmp_path):
    """A comparison's folder."""
    folder = tmp_path / "the résults" / "now"
    folder.mkdir(parents=True)
    return folder


def test_the_other_checkout_has_the_commits_files_and_our_environments_and_goes_as_what_a_killed_one_left(root, folder):
    for name in ("against/stale.py", f"{RECORDS}/one.json"):
        (folder / name).parent.mkdir()
        (folder / name).write_text("{}")
    (folder / "against" / ".nox").symlink_to(root / ".nox")
    with suppress(KeyboardInterrupt), other_checkout.other_checkout(against(root), folder, root) as checkout:
        assert checkout.is_relative_to(folder)
        assert not (checkout / "stale.py").exists()
        assert (checkout / "loop.py").read_text() == "slow"
        assert (checkout / ".nox" / "some" / "python").read_text() == "a program"
        # As a record names it, from inside.
        assert git(checkout, "rev-parse", "HEAD") == git(root, "rev-parse", "HEAD~1")
        assert git(checkout, "status", "--porcelain", "--untracked-files=no") == ""
        raise KeyboardInterrupt
    assert [path.name for path in folder.iterdir()] == [RECORDS]
    assert (folder / RECORDS / "one.json").exists()
    assert (root / ".nox" / "some" / "python").exists()
    assert git(root, "status", "--porcelain") == ""


def test_a_linked_work_tree_without_environments_is_compared_as_any_checkout(root, folder, tmp_path):
    linked = tmp_path / "linked"
    git(root, "worktree", "add", "--quiet", "--detach", str(linked), "HEAD")
    with other_checkout.other_checkout(against(linked), folder, linked) as checkout:
        assert (checkout / "loop.py").read_text() == "slow"
        assert not os.path.lexists(checkout / ".nox")


def test_in_a_shallow_checkout_a_commit_that_was_fetched_alone_is_enough(root, folder, tmp_path, refusal):
    # As CI makes it.
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{root}", "shallow")
    shallow = tmp_path / "shallow"
    assert "run `git fetch --unshallow`" in refusal(lambda: against(shallow))
    git(shallow, "fetch", "--quiet", "--depth", "1", "origin", git(root, "rev-parse", "HEAD~1"))
    with other_checkout.other_checkout(against(shallow, "FETCH_HEAD"), folder, shallow) as checkout:
        assert (checkout / "loop.py").read_text() == "slow"


def test_a_hook_that_compares_is_not_taken_for_the_checkout_and_none_of_the_users_runs(
    root, folder, tmp_path, monkeypatch
):
    hook = tmp_path / "hooks" / "post-checkout"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")
    hook.chmod(0o755)
    (tmp_path / "config").write_text(f"[core]\nhooksPath = {hook.parent}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "another"))
    with other_checkout.other_checkout(against(root), folder, root) as checkout:
        assert (checkout / "loop.py").read_text() == "slow"
    assert not (tmp_path / "ran").exists()


def test_what_git_cannot_check_out_is_one_sentence_and_leaves_nothing(root, folder, refusal):
    lost = Against("lost", "0" * 40, "here", 0.05)
    said = refusal(lambda: other_checkout.other_checkout(lost, folder, root).__enter__())
    assert said.startswith(f"git can't check lost out into {folder / 'against'} (")
    assert not list(folder.iterdir())
