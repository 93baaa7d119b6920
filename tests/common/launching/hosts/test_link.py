"""common/launching/hosts/link.py: a link is measured from one end to the other."""

from common.launching.hosts import link
from common.launching.places import place
from common.launching.places.place import Question
from common.launching.virtual_hosts.description import INTERFACE


def test_two_agents_measure_the_link_between_them(agent):
    server = agent("link-serve", address="127.0.0.1", seconds=0.2)
    sender = agent("link-send", address="127.0.0.1", port=server.answer()["port"], seconds=0.2)
    assert 0 < sender.answer()["round_trip_seconds"] < 1
    assert server.answer()["bytes_per_second"] > 1e6
    assert (sender.wait(30), server.wait(30)) == (0, 0)


def test_the_link_between_hosts_is_measured_and_its_bytes_counted(site):
    first, second = site.hosts
    question = Question(first, "counters", {"interface": INTERFACE})
    [before] = place.ask([question])
    measured = link.measure(first, second, site.machines[1].address, 0.2)
    [after] = place.ask([question])
    assert 0 < measured.round_trip_seconds < 1
    assert after.values["bytes_sent"] - before.values["bytes_sent"] > 0.1 * measured.bytes_per_second
