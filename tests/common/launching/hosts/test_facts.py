"""common/launching/hosts/facts.py: what a host says where something is missing on it."""

import socket
import subprocess

import pytest

from common.declarations import catalogue
from common.environments import inventory
from common.launching.hosts import facts, supervisor
from common.launching.hosts.facts import Route


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    """A folder for launches and one for environments, which has none."""
    monkeypatch.setattr(supervisor, "SCRATCH", tmp_path)
    monkeypatch.setattr(inventory, "FOLDER", tmp_path)


def test_an_environment_that_is_not_made_has_no_versions(tmp_path):
    [name, *others] = catalogue.families()
    (tmp_path / f"{name}.failed").write_text("It has no wheel.")
    assert facts.facts([]).environments == dict.fromkeys([name, *others])


def test_where_there_can_be_no_folder_the_facts_say_why(tmp_path, monkeypatch):
    assert facts.facts([]).no_room is None
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(supervisor, "SCRATCH", tmp_path / "none")
    assert facts.facts([]).no_room == (
        f"{socket.gethostname()} can't keep files in {tmp_path}/none (No such file or directory): make it a folder you "
        "may write in."
    )


def test_files_that_differ_from_the_commit_differ_in_their_digest(tmp_path, monkeypatch):
    def git(*words):
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *words], cwd=tmp_path, check=True)

    monkeypatch.setattr(facts, "ROOT", tmp_path)
    git("init", "--quiet")
    git("commit", "--quiet", "--allow-empty", "--message=first")
    digests = [facts.facts([]).changes]
    for content in ("a", "b"):
        (tmp_path / "file").write_text(content)
        git("add", "file")
        digests.append(facts.facts([]).changes)
    assert len({*digests}) == 3


def test_a_way_to_nowhere_is_no_route(monkeypatch):
    route = facts.route_to("nosuchhost.invalid")
    assert route.failure
    assert route == Route(failure=route.failure)
    monkeypatch.setattr(facts.psutil, "net_if_addrs", dict)
    assert facts.route_to("localhost") == Route(failure="no interface has the address 127.0.0.1")
