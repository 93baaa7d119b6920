"""common/launching/hosts/host.py: hosts are read from a list and from MPI's files, and what can't be meant is
refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import UserError
from common.launching.hosts.host import parse_hosts, read_hostfile
from common.launching.places.ssh import SshHost

NAMES = st.text("abc019._-", max_size=20).map(lambda text: f"h{text}")
HOSTS = st.lists(st.builds(SshHost, NAMES, st.integers(1, 10**6)), min_size=1, unique_by=lambda host: host.name)


@given(HOSTS)
def test_a_list_is_read_as_it_is_written(hosts):
    assert parse_hosts(",".join(f"{host.name}:{host.slots}" for host in hosts)) == hosts


def parsed(text):
    """The hosts in a list, or why it was refused."""
    try:
        return parse_hosts(text)
    except UserError as error:
        return str(error)


@given(st.text(max_size=30))
def test_any_text_is_hosts_or_refused_in_one_line(text):
    result = parsed(text)
    assert result
    assert isinstance(result, list) or (result.endswith(".") and "\n" not in result)


def test_a_host_without_a_number_has_one_slot():
    assert parse_hosts("host1, host2:3") == [SshHost("host1", 1), SshHost("host2", 3)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no host"),
        ("host1,,host2", "names no host"),
        (":2", "names no host"),
        ("host1:2,host2,host1", "host1 stands twice"),
        ("host1,HOST1", "HOST1 stands twice"),
        ("host1:0", "whole number above 0"),
        ("host1:two", "whole number above 0"),
        ("host1:-1", "whole number above 0"),
        ("host1:1.5", "whole number above 0"),
        ("host1:", "whole number above 0"),
        ("host1:²", "whole number above 0"),
        ("me@host1:2", "write `User me` below `Host host1` in ~/.ssh/config"),
        ("-oProxyCommand=reboot", "can't be a host's name"),
        ("host1;reboot", "can't be a host's name"),
        ("$(reboot)", "can't be a host's name"),
        ("host 1", "can't be a host's name"),
        ("höst", "can't be a host's name"),
    ],
)
def test_what_can_not_be_meant_is_refused(text, said, refusal):
    assert said in refusal(lambda: parse_hosts(text))


def test_a_file_of_mpis_format_is_read(tmp_path):
    path = tmp_path / "hosts"
    path.write_text("# Ours.\nhost1 slots=2 max_slots=4\n\nhost2:3  # the other one\nhost3\nhost4 slots = 5\n")
    assert read_hostfile(path) == [SshHost("host1", 2), SshHost("host2", 3), SshHost("host3", 1), SshHost("host4", 5)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("# none\n", "names no host"),
        ("host1 slots=2\nhost1 slots=2\n", "host1 stands twice"),
        ("host1 slots=none\n", "whole number above 0"),
        ("host1:2 slots=3\n", "said twice"),
        ("host1 slots=2 slots=3\n", "said twice"),
        ("host1 slots=2 rack=7\n", "`rack=7` isn't understood"),
        ("me@host1 slots=2\n", "write `User me`"),
        ("-v slots=2\n", "can't be a host's name"),
    ],
)
def test_a_file_that_can_not_be_meant_is_refused(content, said, tmp_path, refusal):
    path = tmp_path / "hosts"
    path.write_text(content)
    assert said in refusal(lambda: read_hostfile(path))


def test_a_file_that_is_not_there_or_no_text_is_one_sentence(tmp_path, refusal):
    assert "No such file" in refusal(lambda: read_hostfile(tmp_path / "none"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert "can't be read" in refusal(lambda: read_hostfile(tmp_path / "binary"))
