"""common/launching/places/place.py: what agents answer is heard from all hosts at the same time."""

import pytest

from common.launching.places import place
from common.launching.places.ssh import SshHost

pytestmark = pytest.mark.usefixtures("played_ssh")


def test_a_host_that_is_silent_takes_no_time_from_the_others():
    hosts = [SshHost(name, 1) for name in ("silent", "chatty1", "chatty2")]
    silent, *others = place.ask("facts", {host: {} for host in hosts}, seconds=2.0)
    assert silent.lost
    assert silent.failure.startswith("silent didn't answer in time")
    assert [(answer.failure, len(answer.values.get("a", ""))) for answer in others] == [(None, 200_000)] * 2


def test_a_host_that_is_lost_or_answers_nothing_is_said(refusal):
    with place.conversation(SshHost("gone", 1), "clock", {}) as talk:
        assert "gone can't be reached by ssh (No route to host)" in refusal(lambda: talk.hear(30))
    [answer] = place.ask("sweep", {SshHost("hostile", 1): {}})
    assert answer.failure == "hostile gave no answer: make it the same commit there as here."
