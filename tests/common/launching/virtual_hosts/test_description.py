"""common/launching/virtual_hosts/description.py: the words for a link, and the cluster as its programs find it."""

import pytest

from common.errors import UserError
from common.launching.virtual_hosts import description
from common.launching.virtual_hosts.description import Cable, Description, described, parse_bandwidth, parse_duration


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        *((parse_bandwidth, *case) for case in (("100mbit", 1e8), ("2.5Gbit", 2.5e9), ("500kbit", 5e5), ("80bit", 80))),
        *((parse_duration, *case) for case in (("1ms", 0.001), ("250us", 0.00025), (".5s", 0.5), ("0ms", 0.0))),
    ],
)
def test_a_bandwidth_is_in_bits_and_a_delay_a_time_as_tc_says_them(parse, text, value):
    assert parse(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "100", "mbit", "-1mbit", "1e3mbit", "1 mbit", "1mbps"])
def test_what_is_no_bandwidth_or_no_delay_is_refused_with_an_example(text):
    with pytest.raises(UserError, match="write it like 100mbit"):
        parse_bandwidth(text)
    with pytest.raises(UserError, match="write it like 1ms"):
        parse_duration(text.replace("mbit", "ms"))


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ((description.SLOWEST_BITS / 2, 0.0), "give 1mbit to 30gbit"),
        ((description.FASTEST_BITS * 2, 0.0), "give 1mbit to 30gbit"),
        ((None, 1.1), "give 0 to 1 s"),
    ],
)
def test_a_link_that_cannot_be_made_is_refused(link, said):
    with pytest.raises(UserError, match=said):
        Cable(*link)


def test_a_program_on_the_head_finds_what_its_cluster_was_described_as_and_elsewhere_there_is_none(monkeypatch):
    monkeypatch.delenv(description.VARIABLE, raising=False)
    assert described() is None
    cluster = Description(Cable(1e8, 0.001), 0.5, ("host1", "host2"), (2, 3), (4, 5))
    monkeypatch.setenv(description.VARIABLE, cluster.variables()[description.VARIABLE])
    assert described() == cluster
