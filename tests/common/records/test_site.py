"""common/records/site.py: what a launch's workers are told of its hosts reaches them whole."""

import socket

import pytest

from common.records.header import Allocated, Host, Link, Virtual
from common.records.site import Site, site


@pytest.fixture
def told(monkeypatch):
    """A function that tells this process of a site."""

    def tell(known):
        for name, value in known.variable().items():
            monkeypatch.setenv(name, value)
        return site()

    return tell


def hosts(*names):
    return [Host(name=f"{name}.cluster", hostname=name, workers=1, interface=f"{name}0") for name in names]


def test_the_interface_is_that_of_the_host_that_asks_and_elsewhere_nobody_is_told_anything(monkeypatch, told):
    monkeypatch.delenv("LOCKSTEP_SITE", raising=False)
    assert site() is None
    known = told(Site(hosts=hosts("a", "b")))
    for name, interface in (("b", "b0"), ("a", "a0"), ("elsewhere", None)):
        monkeypatch.setattr(socket, "gethostname", lambda name=name: name)
        assert known.interface == interface


def test_a_worker_is_told_all_that_is_known(told):
    virtual = Virtual(bandwidth_bits_per_second=1e8, delay_seconds=0.0)
    link = Link(bytes_per_second=11e6, round_trip_seconds=1e-4)
    allocation = Allocated(job="7", partition="all", nodes="n[1-2]")
    known = Site(hosts=hosts("a", "b"), virtual=virtual, link=link, allocation=allocation, oversubscribed=True)
    assert told(known) == known
    assert told(known).facts() == {
        "hosts": known.hosts,
        "virtual": virtual,
        "link": link,
        "allocation": allocation,
    }
