"""Horovod's timeline, its own account of what it does with each gradient and when, summed up for the record.

The file is in the Trace Event Format of chrome://tracing: each tensor is a `pid` with nested begin (B) and end (E)
events, whose `ts` count microseconds (Horovod's docs/timeline.rst names the phases).
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from common.records.trace import seconds_under_way
from common.records.training import Phase

Span = tuple[float, float]
"""Begin and end, in seconds."""

COPIES = ("MEMCPY_IN_FUSION_BUFFER", "MEMCPY_OUT_FUSION_BUFFER")
WHOLE = "ALLREDUCE"
"""The event around everything that follows the negotiation of a tensor."""
NEGOTIATION = "NEGOTIATE_"
"""How the names of negotiations begin."""

MEANINGS = {
    "negotiation": "from the first worker that had the gradient ready to the agreement that all have",
    "queueing": "from that agreement until its exchange began",
    "copying": "into the buffer of the fused gradients and out of it",
    "all-reduce": "the exchange itself",
}
"""The phases of a gradient's exchange. Those of different gradients may overlap, and the computing goes on beside the
first ones."""


class Event(NamedTuple):
    """What Horovod did with a tensor, from when to when, in seconds."""

    name: str
    begin: float
    end: float
    arguments: dict[str, str]
    """Of the outermost events the tensor's `dtype` and `shape`, else nothing."""


@dataclass(frozen=True)
class Exchange:
    """One all-reduce, of a tensor or of several that Horovod fused."""

    span: Span
    """From when a worker had the last of its tensors ready until they were back, negotiation and copies included: what
    a program waits for that asks Horovod for it."""
    size_bytes: int
    """Of all its tensors: on CPUs Horovod puts nothing between them (`NumElements` in its gloo_operations.cc)."""
    data_type: str
    """NumPy's name of the elements' type."""
    step: int
    """Counted from 1: each tensor is exchanged once in every step."""


class _Part(NamedTuple):
    """What happened to one tensor in one step."""

    negotiation: Event
    own: Event
    """The all-reduce itself."""
    whole: Event
    """All that follows the negotiation."""
    step: int


def summarise(path: Path) -> list[Phase]:
    """How long, in seconds over a whole timeline, at least one gradient was in each phase: as a record's `phases`."""
    spans: dict[str, list[Span]] = {name: [] for name in MEANINGS}
    for events in _spans_by_tensor(_read(path)):
        agreed = None
        for name, begin, end, _ in events:
            if name.startswith(NEGOTIATION):
                spans["negotiation"].append((begin, end))
                agreed = end
            elif name != WHOLE:
                if agreed is not None:
                    spans["queueing"].append((agreed, begin))
                    agreed = None
                spans["copying" if name in COPIES else "all-reduce"].append((begin, end))
    return [
        Phase(name=name, seconds=seconds_under_way(spans[name]), meaning=meaning) for name, meaning in MEANINGS.items()
    ]


def exchanges(path: Path) -> list[Exchange]:
    """The all-reduces of a whole timeline, in the order in which they began."""
    parts = []
    for events in _spans_by_tensor(_read(path)):
        negotiations = [event for event in events if event.name.startswith(NEGOTIATION)]
        own = [event for event in events if event.name.endswith(f"_{WHOLE}") and not event.name.startswith(NEGOTIATION)]
        wholes = [event for event in events if event.name == WHOLE]
        # A file that was cut short lacks the end of the last one.
        steps = zip(negotiations, own, wholes, strict=False)
        parts += [_Part(*of_step, step) for step, of_step in enumerate(steps, start=1)]
    parts.sort(key=lambda part: part.own.begin)
    return [_fused(together) for together in _overlapping(parts)]


def _overlapping(parts: list[_Part]) -> list[list[_Part]]:
    """The parts of each exchange: Horovod begins the next one when it has ended those of all tensors of the last."""
    groups, reached = [], float("-inf")
    for part in parts:
        if part.own.begin >= reached:
            groups.append([])
        groups[-1].append(part)
        reached = max(reached, part.own.end)
    return groups


def _fused(parts: list[_Part]) -> Exchange:
    tensors = [part.whole.arguments for part in parts]
    sizes = [math.prod(json.loads(tensor["shape"])) * np.dtype(tensor["dtype"]).itemsize for tensor in tensors]
    span = (max(part.negotiation.begin for part in parts), max(part.whole.end for part in parts))
    return Exchange(span, sum(sizes), tensors[0]["dtype"], parts[0].step)


def _read(path: Path) -> list[dict]:
    """The events, none where nothing was exchanged; Horovod closes neither the list nor its last comma when it is cut
    short.
    """
    text = path.read_text()
    if not text.strip(" \n["):
        return []
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return json.loads(text.rstrip().rstrip(",") + "]")


def _spans_by_tensor(events: Iterable[dict]) -> Iterator[list[Event]]:
    """The events of every tensor that was all-reduced, in the order of their begins."""
    open_spans, spans = defaultdict(list), defaultdict(list)
    for event in events:
        tensor = event.get("pid")
        if event.get("ph") == "B":
            open_spans[tensor].append((event["name"], event["ts"] / 1e6))
        elif event.get("ph") == "E" and open_spans[tensor]:
            name, begin = open_spans[tensor].pop()
            spans[tensor].append(Event(name, begin, event["ts"] / 1e6, event.get("args", {})))
    for own in spans.values():
        if any(event.name == WHOLE for event in own):
            yield sorted(own, key=lambda event: event.begin)
