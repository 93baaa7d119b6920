"""common/launching/places/place.py: what agents answer is heard from all hosts at the same time."""

import pytest

from common.launching.places import place
from common.launching.places.ssh import SshHost

HOST = SshHost("host1", 2)


@pytest.fixture
def as_ssh(tmp_path, monkeypatch):
    """A function that makes this script of a shell's take the place of `ssh`."""

    def play(script):
        (tmp_path / "ssh").write_text(script)
        (tmp_path / "ssh").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return play


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


@pytest.mark.parametrize("line", ["[]", '"run.json"', "no JSON", "[" * 100_000])
def test_only_a_table_is_an_answer(line):
    assert place.values_in(line.encode()) is None


def test_a_host_that_is_lost_in_a_conversation_is_said(as_ssh, refusal):
    as_ssh("#!/bin/sh\necho 'ssh: connect to host host1 port 22: No route to host' >&2; exit 255\n")
    with place.conversation(HOST, "clock", {}) as talk:
        assert "host1 can't be reached by ssh (No route to host)" in refusal(lambda: talk.hear(30))


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
    assert silent.failure.startswith("silent didn't answer in time")
    assert [(answer.failure, len(answer.values.get("a", ""))) for answer in others] == [(None, 200_000)] * 2
