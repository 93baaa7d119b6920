"""common/launching/virtual_hosts/link_calibration.py: which links are refused.

What it measures is in test_virtual_cluster.py.
"""

import subprocess
import time

import pytest

from common.errors import UserError
from common.launching.virtual_hosts import link_calibration
from common.launching.virtual_hosts.description import Cable, Description, address_of
from common.launching.virtual_hosts.link_calibration import check, measure
from common.records.header import PAYLOAD_BYTES, WIRE_BYTES, Link

ASKED = Cable(100e6, 0.001)


def measured(bits, seconds):
    """A link of so many bits per second, headers included."""
    return Link(bytes_per_second=bits / 8 * PAYLOAD_BYTES / WIRE_BYTES, round_trip_seconds=seconds)


@pytest.mark.parametrize(
    "link",
    [measured(100e6, 0.002), measured(91e6, 0.0021), measured(109e6, 0.0019)],
    ids=["as asked", "a little less", "a little more"],
)
def test_a_link_within_a_tenth_of_what_was_asked_for_is_accepted(link):
    assert check(ASKED, link) == link


@pytest.mark.parametrize("bits", [89e6, 111e6])
def test_a_link_that_misses_its_bandwidth_by_more_than_a_tenth_is_refused(bits):
    with pytest.raises(UserError, match=f"carries {bits / 1e6:g} Mbit/s where 100 were asked for"):
        check(ASKED, measured(bits, 0.002))


@pytest.mark.parametrize("seconds", [0.00179, 0.00221])
def test_a_link_that_misses_its_delay_by_more_than_a_tenth_is_refused(seconds):
    with pytest.raises(UserError, match=f"round trip takes {seconds * 1e3:.4g} ms where twice its delay is 2"):
        check(ASKED, measured(100e6, seconds))


def test_of_a_link_without_bandwidth_and_delay_nothing_is_asked():
    check(Cable(None), measured(123e6, 0.5))


def test_a_single_host_has_no_link():
    with pytest.raises(UserError, match="A single virtual host has no link to measure"):
        measure(Description(ASKED, None, ("host1",), (2,), (1,)), 0.5)


def test_a_lost_host_is_said_instead_of_a_measurement():
    gone = subprocess.Popen(["true"])
    gone.wait()
    description = Description(ASKED, None, ("host1", "host2"), (gone.pid, gone.pid), (1, 1))
    with pytest.raises(UserError, match=f"host of process {gone.pid} is gone.*see whether a host is lost"):
        measure(description, 0.5)


@pytest.fixture
def played(monkeypatch):
    """A function that measures a link between two hosts by these functions in place of `link.serve` and `link.send`."""

    def measured(serve, send):
        monkeypatch.setattr(link_calibration, "_enter", lambda cluster, number: None)
        monkeypatch.setattr(link_calibration.tcp, "serve", serve)
        monkeypatch.setattr(link_calibration.tcp, "send", send)
        return measure(Description(ASKED, None, ("host1", "host2"), keepers=(1, 2)), 0.1)

    return measured


def serving(address, seconds, answer):
    answer({"port": 1})
    answer({"bytes_per_second": 1.0})


def test_no_stream_begins_before_every_round_trip_is_measured(played):
    events = []

    def send(address, port, seconds, before_stream):
        time.sleep(0.05 if address == address_of(1) else 0)
        events.append("round trip")
        before_stream()
        events.append("stream")
        return {"round_trip_seconds": 0.1}

    assert played(serving, send) == Link(bytes_per_second=1.0, round_trip_seconds=0.1)
    assert events == ["round trip", "round trip", "stream", "stream"]


def test_a_sender_that_fails_ends_the_wait_of_the_others(played):
    def send(address, port, seconds, before_stream):
        if address == address_of(1):
            raise UserError("It isn't reached.")
        before_stream()

    begin = time.monotonic()
    with pytest.raises(UserError, match="The virtual link can't be measured"):
        played(serving, send)
    assert time.monotonic() - begin < 10


def test_a_fault_of_a_receiver_is_raised_and_not_waited_for(played):
    def broken(address, seconds, answer):
        raise ZeroDivisionError("It is ours.")

    with pytest.raises(ZeroDivisionError, match=r"It is ours\."):
        played(broken, lambda *_: None)
