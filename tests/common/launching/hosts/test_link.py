"""common/launching/hosts/link.py: a link is measured from one end to the other."""

from common.launching.hosts import link
from tests.hosts import bytes_sent_by


def test_two_agents_measure_the_link_between_them(agent):
    server = agent("link-serve", address="127.0.0.1", seconds=0.2)
    sender = agent("link-send", address="127.0.0.1", port=server.answer()["port"], seconds=0.2)
    assert 0 < sender.answer()["round_trip_seconds"] < 1
    assert server.answer()["bytes_per_second"] > 1e6
    assert (sender.wait(30), server.wait(30)) == (0, 0)


def test_the_link_between_hosts_is_measured_and_its_bytes_counted(site):
    first, second = site.hosts
    before = bytes_sent_by(site.machines[0])
    measured = link.measure(first, second, site.machines[1].address, 0.2)
    sent = bytes_sent_by(site.machines[0]) - before
    assert 0 < measured.round_trip_seconds < 1
    assert sent > 0.1 * measured.bytes_per_second
