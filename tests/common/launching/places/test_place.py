"""common/launching/places/place.py: what agents answer is heard from all hosts at the same time."""

import pytest

from common.launching.places import place
from common.launching.places.place import AGENT
from common.launching.places.ssh import SshHost
from common.paths import ROOT

HOST = SshHost("host1", 2)


@pytest.fixture
def as_ssh(tmp_path, monkeypatch):
    """A function that makes this script of a shell's take the place of `ssh`."""

    def play(script):
        (tmp_path / "ssh").write_text(script)
        (tmp_path / "ssh").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return play


def test_the_agent_is_a_module_that_there_is():
    assert ROOT.joinpath(*AGENT.split(".")).with_suffix(".py").is_file()


ECHOING = """#!/bin/sh
echo "Welcome!"
read request
echo "$request"
"""


def test_what_a_users_shell_prints_first_is_no_answer(as_ssh):
    as_ssh(ECHOING)
    [answer] = place.ask("facts", {HOST: {"peers": []}})
    assert (answer.values, answer.failure) == ({"peers": []}, None)
    with place.conversation(HOST, "clock", {"n": 1}) as talk:
        assert talk.hear(30) == {"n": 1}


def test_a_host_that_is_silent_is_given_up(as_ssh):
    as_ssh("#!/bin/sh\nexec sleep 600\n")
    [answer] = place.ask("facts", {HOST: {}}, seconds=0.2)
    assert answer.lost
    assert answer.failure.startswith("host1 didn't answer in time")


HALF_SILENT = """#!/bin/sh
for word; do
    [ "$word" = silent ] && exec sleep 600
done
# More than a pipe holds.
printf '{"a": "'; head -c 200000 /dev/zero | tr '\\0' x; echo '"}'
"""


def test_a_host_that_is_silent_takes_no_time_from_the_others(as_ssh):
    as_ssh(HALF_SILENT)
    hosts = [SshHost("silent", 1), HOST, SshHost("host2", 1)]
    silent, *others = place.ask("facts", {host: {} for host in hosts}, seconds=2.0)
    assert silent.lost
    assert [(answer.failure, len(answer.values.get("a", ""))) for answer in others] == [(None, 200_000)] * 2
