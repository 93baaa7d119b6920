"""common/prediction/events.py: what waits for what, played in time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.prediction.events import Event, play

SECONDS = st.lists(st.floats(0, 100), min_size=1, max_size=20)


@given(SECONDS)
def test_what_follows_one_another_takes_the_sum(seconds):
    events = [Event("e", each, (place - 1,) if place else ()) for place, each in enumerate(seconds)]
    assert play(events)[-1] == pytest.approx(sum(seconds))


@given(SECONDS)
def test_what_waits_for_nothing_ends_by_itself(seconds):
    assert play([Event("e", each) for each in seconds]) == seconds


@given(SECONDS)
def test_a_resource_serves_one_event_at_a_time(seconds):
    ends = play([Event("e", each, resource="core") for each in seconds])
    assert max(ends) == pytest.approx(sum(seconds))


def test_what_is_ready_first_is_served_first():
    late, early = Event("late", 5.0, (0,), "link"), Event("early", 3.0, (), "link")
    assert play([Event("before", 1.0), late, early]) == [1.0, 8.0, 3.0]


def test_an_event_begins_when_the_last_of_those_before_it_has_ended():
    assert play([Event("a", 1.0), Event("b", 4.0), Event("c", 2.0, (0, 1))])[-1] == 6.0


def test_a_circle_is_refused():
    with pytest.raises(ValueError, match="in a circle"):
        play([Event("a", 1.0, (1,)), Event("b", 1.0, (0,))])
