"""A step as a graph of events, played in time: what waits for what, and what serves one event at a time."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """Something that takes time, once all `after` it have ended."""

    name: str
    seconds: float
    after: tuple[int, ...] = ()
    """Places of other events in the sequence that is played."""
    resource: str = ""
    """What serves one event at a time, such as a core or a link, first what is ready first; empty: nothing is waited
    for, as with time on the way."""


def play(events: Sequence[Event]) -> list[float]:
    """When each event ends, in seconds from the start. Raises ValueError where events wait for one another in a circle.

    This is a discrete-event simulation: time goes from one event's readiness to the next (Law, "Simulation Modeling and
    Analysis", section 1.3).
    """
    followers: list[list[int]] = [[] for _ in events]
    waits_for = [len(event.after) for event in events]
    for place, event in enumerate(events):
        for earlier in event.after:
            followers[earlier].append(place)
    ready_at, ends = [0.0] * len(events), [0.0] * len(events)
    ready = [(0.0, place) for place, count in enumerate(waits_for) if not count]
    free_at: dict[str, float] = {}
    played = 0
    while ready:
        begin, place = heapq.heappop(ready)
        event = events[place]
        if event.resource:
            begin = max(begin, free_at.get(event.resource, 0.0))
            free_at[event.resource] = begin + event.seconds
        ends[place] = begin + event.seconds
        played += 1
        for follower in followers[place]:
            ready_at[follower] = max(ready_at[follower], ends[place])
            waits_for[follower] -= 1
            if not waits_for[follower]:
                heapq.heappush(ready, (ready_at[follower], follower))
    if played < len(events):
        raise ValueError("Events wait for one another in a circle.")
    return ends
