"""common/launching/hosts/survey.py: the hosts stand side by side, and what mustn't differ among them is refused in
one line."""

import io
import re

import pytest
from rich.console import Console

from common.launching.hosts import survey
from common.launching.hosts.clocks import Offset
from common.launching.hosts.facts import Route
from common.launching.places.place import Answer
from common.launching.places.ssh import SshHost
from common.launching.virtual_hosts.description import INTERFACE
from common.measurement import machine
from common.records.header import Machine
from tests.common.launching.hosts.test_cluster import member
from tests.hosts_apart import SECONDS_APART


def test_hosts_that_are_alike_are_not_refused():
    survey.refuse([member(1), member(2)])
    survey.refuse([member(1, routes={})])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hostname": "machine1"}, "host1 and host2 are the same machine, machine1"),
        ({"commit": "fedcba9876543210"}, "differ in their commit (0123456789abcdef+changes, fedcba9876543210)"),
        ({"commit": None}, "differ in their commit (0123456789abcdef+changes, none)"),
        ({"changes": "another"}, "differ in their changes to the commit (a digest, another)"),
        ({"python": "3.12.1"}, "differ in their Python (3.11, 3.12.1)"),
        ({"environments": {"some": None, "other": None}}, "differ in their environment some (made, not made)"),
        (
            {"environments": {"some": {"python": "3.11.7", "numpy": "2.4.5"}, "other": None}},
            "differ in their numpy of the environment some (2.4.6, 2.4.5)",
        ),
        ({"routes": {"host1": Route(failure="Name or service not known")}}, "host2 can't reach host1 (Name or service"),
        (
            {"routes": {"host1": Route(interface="eth0"), "host3": Route(interface="eth1")}},
            "host2 reaches host1 by eth0 and host3 by eth1",
        ),
        ({"no_room": "node7 can't keep files."}, "host2: node7 can't keep files."),
    ],
)
def test_what_must_not_differ_is_refused(changes, said, refusal):
    assert said in refusal(lambda: survey.refuse([member(1), member(2, **changes)]))


def test_the_table_has_a_row_for_each_host():
    text = io.StringIO()
    other = {"host": SshHost("host2", 4), "machine": Machine(cores=8), "clock": Offset(3600.25, 0.00015)}
    Console(file=text, width=200).print(survey.table([member(1), member(2, **other)]))
    shown = text.getvalue()
    row = re.search(r".*10\.0\.0\.2/24.*", shown)[0]
    for cell in ("host2", "012345678+changes", "3.11", "2", "8", "4", "eth0", "+3600.250000 s ± 150 µs"):
        assert re.search(rf"│ +{re.escape(cell)} +│", row), cell
    assert "some: python 3.11.7, numpy 2.4.6" in shown
    assert "other: not made" in shown


def test_two_hosts_are_surveyed_over_ssh(site):
    first, second = surveyed = survey.survey(site.hosts)
    survey.refuse(surveyed)
    assert [facts.hostname for facts in surveyed] == ["host1", "host2"]
    assert first.commit == machine.git_commit()
    assert first.route == Route(interface=INTERFACE, address="10.77.0.1", prefix_length=24)
    assert second.route.address == "10.77.0.2"
    for number, facts in enumerate(surveyed, start=1):
        assert abs(facts.clock.offset_seconds - number * SECONDS_APART) <= facts.clock.uncertainty_seconds < 0.5


def test_a_host_whose_checkout_tells_other_facts_is_one_sentence(monkeypatch, refusal):
    monkeypatch.setattr(survey.clocks, "measure", lambda hosts: [Offset(0.0, 0.0)])
    monkeypatch.setattr(survey.place, "ask", lambda action, requests: [Answer(each, {}) for each in requests])
    sentence = refusal(lambda: survey.survey([SshHost("host1", 1)]))
    assert sentence.startswith("host1 has another checkout (Object ")
    assert sentence.endswith("): make it the same commit there as here.")


def test_every_host_that_does_not_answer_is_named(site, refusal):
    said = refusal(lambda: survey.survey([*site.hosts, SshHost("host3", 1), SshHost("host4", 1)]))
    assert "host3: no machine is found" in said
    assert "host4: no machine is found" in said
