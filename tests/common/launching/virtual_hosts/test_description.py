"""common/launching/virtual_hosts/description.py: the words for a link, and the cluster as its programs find it."""

import os
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.errors import UserError
from common.launching.virtual_hosts.description import (
    FASTEST_BITS,
    SLOWEST_BITS,
    VARIABLE,
    Cable,
    Description,
    described,
    parse_bandwidth,
    parse_duration,
)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        *((parse_bandwidth, *case) for case in (("100mbit", 1e8), ("2.5Gbit", 2.5e9), ("500kbit", 5e5), ("80bit", 80))),
        *((parse_duration, *case) for case in (("1ms", 0.001), ("250us", 0.00025), (".5s", 0.5), ("0ms", 0.0))),
    ],
)
def test_a_bandwidth_is_in_bits_and_a_delay_a_time_as_tc_says_them(parse, text, value):
    assert parse(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["1gbps", "1.5kbps", "8bps"])
def test_what_tc_takes_for_bytes_is_refused_with_what_to_write_for_bits(text):
    with pytest.raises(UserError, match=f"bytes per second.*write {text.removesuffix('ps')}it for bits"):
        parse_bandwidth(text)


@pytest.mark.parametrize("text", ["", "100", "mbit", "-1mbit", "1e3mbit", "1 mbit", "nanmbit", "1mibit", "1.2.3mbit"])
def test_what_is_no_bandwidth_or_no_delay_is_refused_with_an_example(text):
    with pytest.raises(UserError, match="write it like 100mbit"):
        parse_bandwidth(text)
    with pytest.raises(UserError, match="write it like 1ms"):
        parse_duration(text.replace("mbit", "ms"))


@pytest.mark.parametrize(
    ("link", "said"),
    [
        *(
            ((bits, 0.0), "give 1mbit to 30gbit")
            for bits in (0.0, -1.0, SLOWEST_BITS / 2, FASTEST_BITS * 2, float("nan"), float("inf"))
        ),
        *(((None, seconds), "give 0 to 1 s") for seconds in (-0.001, 1.1, float("nan"))),
    ],
)
def test_a_link_that_cannot_be_made_or_meant_is_refused(link, said):
    with pytest.raises(UserError, match=said):
        Cable(*link)


links = st.builds(Cable, st.none() | st.floats(SLOWEST_BITS, FASTEST_BITS), st.floats(0, 1, allow_subnormal=False))


@given(links, st.none() | st.floats(0.1, 8), st.integers(1, 5))
def test_a_program_on_the_head_finds_what_its_cluster_was_described_as(link, cores, count):
    names = tuple(f"host{number}" for number in range(1, count + 1))
    numbers = tuple(range(2, count + 2))
    description = Description(link, cores, names, numbers, numbers)
    with mock.patch.dict(os.environ, description.variables()):
        assert described() == description


def test_elsewhere_no_cluster_is_described(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert described() is None
    monkeypatch.setenv(VARIABLE, "")
    assert described() is None
