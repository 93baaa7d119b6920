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
    ("text", "bits"),
    [("100mbit", 1e8), ("1gbit", 1e9), ("2.5Gbit", 2.5e9), ("500kbit", 5e5), ("1000000bit", 1e6), (".5gbit", 5e8)],
)
def test_a_bandwidth_is_in_bits_as_tc_says_it(text, bits):
    assert parse_bandwidth(text) == bits


@pytest.mark.parametrize(("text", "seconds"), [("1ms", 0.001), ("250us", 0.00025), ("0.5s", 0.5), ("0ms", 0.0)])
def test_a_delay_is_a_time_as_tc_says_it(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["1gbps", "100mbps", "1.5kbps", "8bps"])
def test_what_tc_takes_for_bytes_is_refused_with_what_to_write_for_bits(text):
    with pytest.raises(UserError, match=f"bytes per second.*write {text.removesuffix('ps')}it for bits"):
        parse_bandwidth(text)


@pytest.mark.parametrize("text", ["", "100", "mbit", "-1mbit", "1e3mbit", "1 mbit", "nanmbit", "1mibit", "1.2.3mbit"])
def test_what_is_no_bandwidth_is_refused_with_an_example(text):
    with pytest.raises(UserError, match="write it like 100mbit"):
        parse_bandwidth(text)


@pytest.mark.parametrize("text", ["", "1", "ms", "-1ms", "1min", "one ms"])
def test_what_is_no_delay_is_refused_with_an_example(text):
    with pytest.raises(UserError, match="write it like 1ms"):
        parse_duration(text)


@pytest.mark.parametrize("bits", [0.0, -1.0, SLOWEST_BITS / 2, FASTEST_BITS * 2, float("nan"), float("inf")])
def test_a_bandwidth_that_a_token_bucket_does_not_make_is_refused(bits):
    with pytest.raises(UserError, match="give 1mbit to 30gbit"):
        Cable(bits)


@pytest.mark.parametrize("seconds", [-0.001, 1.1, float("nan")])
def test_a_delay_that_cannot_be_meant_is_refused(seconds):
    with pytest.raises(UserError, match="give 0 to 1 s"):
        Cable(None, seconds)


links = st.builds(Cable, st.none() | st.floats(SLOWEST_BITS, FASTEST_BITS), st.floats(0, 1, allow_subnormal=False))


@given(links, st.none() | st.floats(0.1, 8), st.integers(1, 5))
def test_a_program_on_the_head_finds_what_its_cluster_was_described_as(link, cores, count):
    names = tuple(f"host{number}" for number in range(1, count + 1))
    numbers = tuple(range(2, count + 2))
    description = Description(link, cores, names, numbers, numbers)
    with mock.patch.dict(os.environ, description.variables()):
        assert described() == description


@pytest.mark.parametrize("environment", [{}, {VARIABLE: ""}])
def test_elsewhere_no_cluster_is_described(environment, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert described() is None
