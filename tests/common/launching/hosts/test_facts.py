"""common/launching/hosts/facts.py: what a host says of itself, and of what is missing on it."""

import errno
import os
import platform
import socket
from unittest.mock import Mock

import pytest

from common.declarations import catalogue
from common.environments import inventory
from common.launching.hosts import facts, supervisor
from common.launching.hosts.facts import Route
from tests.common.conftest import commit, git


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    """A folder for launches and one for environments, which has none."""
    monkeypatch.setattr(supervisor, "SCRATCH", tmp_path)
    monkeypatch.setattr(inventory, "FOLDER", tmp_path)


def test_the_facts_are_those_of_this_machine(tmp_path):
    [name, *others] = catalogue.families()
    (tmp_path / f"{name}.failed").write_text("It has no wheel.")
    found = facts.facts(["localhost", "nosuchhost.invalid"])
    assert found.hostname == socket.gethostname()
    assert found.python == platform.python_version()
    assert found.cores == len(os.sched_getaffinity(0))
    assert found.machine.memory_bytes > 0
    assert found.environments == dict.fromkeys([name, *others])
    assert found.routes["localhost"] == Route(interface="lo", address="127.0.0.1", prefix_length=8)
    failure = found.routes["nosuchhost.invalid"].failure
    assert failure
    assert found.routes["nosuchhost.invalid"] == Route(failure=failure)
    assert found.no_room is None
    assert not list(tmp_path.glob("lockstep-*"))


def test_where_there_can_be_no_folder_or_no_room_in_it_the_facts_say_why(tmp_path, monkeypatch):
    refused = f"{socket.gethostname()} can't keep files in {tmp_path}"
    is_full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(os, "posix_fallocate", Mock(side_effect=is_full))
    assert facts.facts([]).no_room == f"{refused} (No space left on device): make room there."
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(supervisor, "SCRATCH", tmp_path / "none")
    assert facts.facts([]).no_room.startswith(f"{refused}/none (No such file or directory): ")


def test_files_that_differ_from_the_commit_differ_in_their_digest(tmp_path, monkeypatch):
    monkeypatch.setattr(facts, "ROOT", tmp_path)
    git(tmp_path, "init", "--quiet")
    commit(tmp_path, {"file": ""})
    digests = [facts.facts([]).changes]
    for content in ("a", "b"):
        (tmp_path / "file").write_text(content)
        digests.append(facts.facts([]).changes)
    assert len({*digests}) == 3
