"""common/launching/hosts/selection.py: the options name hosts in one way, in a list or in MPI's files, or none."""

import math

import pytest
import tyro
from hypothesis import given
from hypothesis import strategies as st

from common.errors import UserError
from common.launching.hosts.selection import Selection, parse_hosts, read_hostfile
from common.launching.places.ssh import SshHost
from common.launching.virtual_hosts.description import Cable


def test_hosts_are_named_in_a_list_in_a_file_or_not_at_all(tmp_path):
    file = tmp_path / "hosts"
    file.write_text("# Ours.\none slots=2 max_slots=4\n\ntwo:3  # the other one\nthree\nfour slots = 5\n")
    expected = [SshHost("one", 2), SshHost("two", 3), SshHost("three", 1), SshHost("four", 5)]
    assert tyro.cli(Selection, args=["--hosts", "one:2, two:3,three,four:5"]).real_hosts() == expected
    assert tyro.cli(Selection, args=["--hostfile", str(file)]).real_hosts() == expected
    assert tyro.cli(Selection, args=[]).is_here


def test_virtual_hosts_have_a_link_that_is_asked_for_in_tcs_words():
    selection = tyro.cli(Selection, args=["--virtual-hosts", "4", "--bandwidth", "10mbit", "1gbit", "--delay", "1ms"])
    assert not selection.is_here
    assert selection.bandwidths_bits_per_second == (1e7, 1e9)
    assert selection.first_cable == Cable(1e7, 0.001)
    assert Selection(virtual_hosts=2).first_cable == Cable(None, 0.0)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"hosts": "a", "virtual_hosts": 2}, "each name the hosts: give one of them"),
        ({"slurm": True, "hosts": "one:2"}, "each name the hosts: give one of them"),
        ({"submit": True}, "--submit hands the work to Slurm: add --slurm"),
        ({"bandwidth": ("1mbit",)}, "are those of virtual hosts: add --virtual-hosts"),
        ({"cores_per_host": 0.5}, "are those of virtual hosts: add --virtual-hosts"),
        *(({"virtual_hosts": count}, f"--virtual-hosts {count}: give 2 to 250") for count in (1, 251)),
        *(
            (
                {"virtual_hosts": 2, "cores_per_host": share},
                f"--cores-per-host {share:g}: give a number of 0.05 or more",
            )
            for share in (0.01, math.nan, math.inf)
        ),
        ({"virtual_hosts": 2, "bandwidth": ("1gbit", "1000mbit")}, "name each once"),
        ({"virtual_hosts": 2, "delay": "soon"}, "isn't a time: write it like 1ms"),
        *(
            ({"hosts": hosts}, said)
            for hosts, said in (
                ("", "names no host"),
                ("host1:2,host2,host1", "host1 stands twice"),
                ("host1,HOST1", "HOST1 stands twice"),
                *((f"host1:{slots}", "whole number above 0") for slots in ("0", "two", "", "²")),
                ("me@host1:2", "write `User me` below `Host host1` in ~/.ssh/config"),
                *((name, "can't be a host's name") for name in ("-oProxyCommand=reboot", "$(reboot)", "höst")),
            )
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(refusal, values, said):
    assert said in refusal(lambda: Selection(**values).real_hosts())


@given(st.text(max_size=30))
def test_any_text_is_hosts_or_refused_in_one_line(text):
    try:
        result = parse_hosts(text)
    except UserError as error:
        result = str(error)
    assert result
    assert isinstance(result, list) or (result.endswith(".") and "\n" not in result)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"# none\n", "names no host"),
        (b"host1 slots=none\n", "whole number above 0"),
        (b"host1:2 slots=3\n", "said twice"),
        (b"host1 slots=2 slots=3\n", "said twice"),
        (b"host1 slots=2 rack=7\n", "`rack=7` isn't understood"),
        (b"\xff\xfe", "can't be read"),
    ],
)
def test_a_file_that_can_not_be_meant_is_refused(content, said, tmp_path, refusal):
    path = tmp_path / "hosts"
    path.write_bytes(content)
    assert said in refusal(lambda: read_hostfile(path))
