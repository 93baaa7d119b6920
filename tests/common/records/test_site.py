"""common/records/site.py: what a launch's workers are told of its hosts reaches them whole."""

import socket

from common.records.header import Allocated, Host, Link, Virtual
from common.records.site import VARIABLE, Site, site


def test_a_worker_is_told_all_that_is_known_with_its_own_interface_and_elsewhere_nothing(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert site() is None
    hosts = [Host(name=f"{name}.cluster", hostname=name, workers=1, interface=f"{name}0") for name in ("a", "b")]
    virtual = Virtual(bandwidth_bits_per_second=1e8, delay_seconds=0.0)
    link = Link(bytes_per_second=11e6, round_trip_seconds=1e-4)
    allocation = Allocated(job="7", partition="all", nodes="n[1-2]")
    known = Site(hosts=hosts, virtual=virtual, link=link, allocation=allocation, oversubscribed=True)
    monkeypatch.setenv(VARIABLE, known.variable()[VARIABLE])
    assert site() == known
    assert known.facts() == {"hosts": hosts, "virtual": virtual, "link": link, "allocation": allocation}
    for name, interface in (("b", "b0"), ("a", "a0"), ("elsewhere", None)):
        monkeypatch.setattr(socket, "gethostname", lambda name=name: name)
        assert known.interface == interface
