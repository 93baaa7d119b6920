"""common/launching/virtual_hosts/link_calibration.py: which links are refused.

What it measures is in test_virtual_cluster.py.
"""

import subprocess
import time

import pytest

from common.launching.virtual_hosts import link_calibration
from common.launching.virtual_hosts.description import Cable, Description, address_of
from common.launching.virtual_hosts.link_calibration import check, measure
from common.records.header import PAYLOAD_BYTES, WIRE_BYTES, Link

ASKED = Cable(100e6, 0.001)


def measured(bits, seconds):
    """A link of so many bits per second, headers included."""
    return Link(bytes_per_second=bits / 8 * PAYLOAD_BYTES / WIRE_BYTES, round_trip_seconds=seconds)


@pytest.mark.parametrize(
    ("bits", "seconds", "said"),
    [
        (89e6, 0.002, "carries 89 Mbit/s where 100 were asked for"),
        (111e6, 0.002, "carries 111 Mbit/s where 100 were asked for"),
        (100e6, 0.00179, "round trip takes 1.79 ms where twice its delay is 2"),
        (100e6, 0.00221, "round trip takes 2.21 ms where twice its delay is 2"),
    ],
)
def test_a_link_that_misses_what_was_asked_for_by_more_than_a_tenth_is_refused(bits, seconds, said, refusal):
    link = measured(bits, seconds)
    assert said in refusal(lambda: check(ASKED, link))
    for near in (measured(91e6, 0.0021), measured(109e6, 0.0019)):
        assert check(ASKED, near) == near
    assert check(Cable(None), link) == link, "Nothing was asked for."


def test_a_lost_host_is_said_instead_of_a_measurement(refusal):
    gone = subprocess.Popen(["true"])
    gone.wait()
    with_a_lost_one = Description(ASKED, None, ("host1", "host2"), (gone.pid, gone.pid), (1, 1))
    said = refusal(lambda: measure(with_a_lost_one, 0.5))
    assert f"host of process {gone.pid} is gone" in said
    assert "see whether a host is lost" in said


def test_no_stream_begins_before_every_round_trip_is_measured(monkeypatch):
    events = []

    def serve(address, seconds, answer):
        answer({"port": 1})
        answer({"bytes_per_second": 1.0})

    def send(address, port, seconds, before_stream):
        time.sleep(0.05 if address == address_of(1) else 0)
        events.append("round trip")
        before_stream()
        events.append("stream")
        return {"round_trip_seconds": 0.1}

    monkeypatch.setattr(link_calibration, "_enter", lambda cluster, number: None)
    monkeypatch.setattr(link_calibration.tcp, "serve", serve)
    monkeypatch.setattr(link_calibration.tcp, "send", send)
    found = measure(Description(ASKED, None, ("host1", "host2"), keepers=(1, 2)), 0.1)
    assert found == Link(bytes_per_second=1.0, round_trip_seconds=0.1)
    assert events == ["round trip", "round trip", "stream", "stream"]
