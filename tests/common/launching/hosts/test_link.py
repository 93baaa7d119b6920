"""common/launching/hosts/link.py: a link is measured from one end to the other, or said not to be there."""

import pytest

from common.launching.hosts import link
from common.launching.places.ssh import SshHost


@pytest.mark.usefixtures("played_ssh")
def test_the_link_between_two_hosts_is_measured():
    measured = link.measure(SshHost("host1", 1), SshHost("host2", 1), "127.0.0.1", 0.2)
    assert measured.bytes_per_second > 1e6
    assert 0 < measured.round_trip_seconds < 1


def test_an_address_that_is_not_here_or_does_not_answer_is_said(refusal):
    said = refusal(lambda: link.serve("192.0.2.1", 1.0, lambda _: None))
    assert "can't measure the link with 192.0.2.1 (Cannot assign requested address" in said
    assert "can't measure the link with 127.0.0.1 (Connection refused)" in refusal(
        lambda: link.send("127.0.0.1", 1, 1.0)
    )
