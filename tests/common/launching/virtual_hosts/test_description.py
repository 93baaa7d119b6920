"""common/launching/virtual_hosts/description.py: the words for a link, and the cluster as its programs find it."""

import os
from functools import partial
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

BANDWIDTHS = {"100mbit": 1e8, "1gbit": 1e9, "2.5Gbit": 2.5e9, "500kbit": 5e5, "1000000bit": 1e6, ".5gbit": 5e8}
DELAYS = {"1ms": 0.001, "250us": 0.00025, "0.5s": 0.5, "0ms": 0.0}


def test_bandwidths_are_in_bits_and_delays_are_times_as_tc_says_them():
    assert {text: parse_bandwidth(text) for text in BANDWIDTHS} == BANDWIDTHS
    assert {text: parse_duration(text) for text in DELAYS} == pytest.approx(DELAYS)


@pytest.mark.parametrize(
    ("parse", "texts", "said"),
    [
        (parse_bandwidth, ["1gbps"], "bytes per second.*write 1gbit for bits"),
        (parse_bandwidth, ["8bps"], "bytes per second.*write 8bit for bits"),
        (
            parse_bandwidth,
            ["", "100", "mbit", "-1mbit", "1e3mbit", "1 mbit", "nanmbit", "1mibit", "1.2.3mbit"],
            "write it like 100mbit",
        ),
        (parse_duration, ["", "1", "ms", "-1ms", "1min", "one ms"], "write it like 1ms"),
        (
            Cable,
            [0.0, -1.0, SLOWEST_BITS / 2, FASTEST_BITS * 2, float("nan"), float("inf")],
            "give 1mbit to 30gbit",
        ),
        (partial(Cable, None), [-0.001, 1.1, float("nan")], "give 0 to 1 s"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_write(parse, texts, said):
    for text in texts:
        with pytest.raises(UserError, match=said):
            parse(text)


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
