"""common/launching/hosts/selection.py: the options name hosts in one way, or none."""

import pytest
import tyro

from common.launching.hosts.selection import Selection
from common.launching.places.ssh import SshHost
from common.launching.virtual_hosts.description import Link


def test_without_options_it_is_this_machine_alone():
    assert tyro.cli(Selection, args=[]).is_here
    assert not tyro.cli(Selection, args=["--virtual-hosts", "2"]).is_here


def test_hosts_are_named_in_a_list_or_in_a_file_of_mpis_format(tmp_path):
    (tmp_path / "hosts").write_text("one slots=2\ntwo slots=4\n")
    expected = [SshHost("one", 2), SshHost("two", 4)]
    assert tyro.cli(Selection, args=["--hosts", "one:2,two:4"]).real_hosts() == expected
    assert tyro.cli(Selection, args=["--hostfile", str(tmp_path / "hosts")]).real_hosts() == expected


def test_virtual_hosts_have_a_link_that_is_asked_for_in_tcs_words():
    selection = tyro.cli(Selection, args=["--virtual-hosts", "4", "--bandwidth", "10mbit", "1gbit", "--delay", "1ms"])
    assert selection.bandwidths_bits_per_second == (1e7, 1e9)
    assert selection.first_wire == Link(1e7, 0.001)
    assert Selection(virtual_hosts=2).first_wire == Link(None, 0.0)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"hosts": "a", "virtual_hosts": 2}, "each name the hosts: give one of them"),
        ({"hosts": "a", "hostfile": "b"}, "each name the hosts: give one of them"),
        ({"bandwidth": ("1mbit",)}, "are those of virtual hosts: add --virtual-hosts"),
        ({"hosts": "a", "delay": "1ms"}, "are those of virtual hosts: add --virtual-hosts"),
        ({"cores_per_host": 0.5}, "are those of virtual hosts: add --virtual-hosts"),
        ({"virtual_hosts": 1}, "--virtual-hosts 1: give 2 or more"),
        ({"virtual_hosts": 2, "cores_per_host": 0.0}, "--cores-per-host 0: give a number above 0"),
        ({"virtual_hosts": 2, "bandwidth": ("1gbit", "1000mbit")}, "name each once"),
        ({"virtual_hosts": 2, "bandwidth": ("100gbps",)}, "write 100gbit"),
        ({"virtual_hosts": 2, "delay": "soon"}, "isn't a time: write it like 1ms"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_one_sentence(refusal, values, said):
    assert said in refusal(lambda: Selection(**values))
