"""Horovod's timeline, its log of the events of each gradient, summed up for the record.

The file is in the Trace Event Format of chrome://tracing: each tensor is a `pid` with nested begin (B) and end (E)
events, whose `ts` count microseconds (Horovod's docs/timeline.rst names the phases).
"""

import dataclasses
import json
import math
from collections import defaultdict
from collections.abc import Iterator
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
"""The event around all others that follow the negotiation of a tensor."""
NEGOTIATION = "NEGOTIATE_"
"""The prefix of the names of negotiations."""

MEANINGS = {
    "negotiation": "from the first worker that had the gradient ready to the agreement that all have",
    "queueing": "from that agreement until its exchange began",
    "copying": "into the buffer of the fused gradients and out of it",
    "all-reduce": "the exchange itself",
}
"""The phases of a gradient's exchange. Phases of different gradients may overlap. Computing goes on beside the first
phases."""


class Event(NamedTuple):
    """An event of a tensor: its name, its begin and its end, in seconds."""

    name: str
    begin: float
    end: float
    arguments: dict[str, str]
    """The tensor's `dtype` and `shape` for the outermost events, else empty."""


@dataclass(frozen=True)
class Exchange:
    """One all-reduce, of a tensor or of several that Horovod fused."""

    span: Span
    """The time that a program waits for the exchange, negotiation and copies included.

    It begins when a worker had the last of the tensors ready, and ends when the tensors were back."""
    size_bytes: int
    """Bytes of all tensors. On CPUs Horovod puts no padding between them (`NumElements` in its gloo_operations.cc)."""
    data_type: str
    """NumPy's name of the elements' type."""
    step: int
    """Counted from 1: each tensor is exchanged once in every step."""


def summarise(path: Path) -> list[Phase]:
    """How long, in seconds over a whole timeline, at least one gradient was in each phase: as a record's `phases`."""
    spans: dict[str, list[Span]] = {name: [] for name in MEANINGS}
    for events in _events_by_tensor(path):
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
    parts: list[tuple[Event, Exchange]] = []
    for events in _events_by_tensor(path):
        negotiations = [event for event in events if event.name.startswith(NEGOTIATION)]
        others = [event for event in events if not event.name.startswith(NEGOTIATION)]
        all_reduces = [event for event in others if event.name.endswith(f"_{WHOLE}")]
        wholes = [event for event in others if event.name == WHOLE]
        # A truncated file lacks the end of the last event.
        steps = zip(negotiations, all_reduces, wholes, strict=False)
        for step, (negotiation, all_reduce, whole) in enumerate(steps, start=1):
            data_type, shape = whole.arguments["dtype"], json.loads(whole.arguments["shape"])
            size_bytes = math.prod(shape) * np.dtype(data_type).itemsize
            parts.append((all_reduce, Exchange((negotiation.begin, whole.end), size_bytes, data_type, step)))
    fused: list[Exchange] = []
    end = float("-inf")
    for all_reduce, part in sorted(parts, key=lambda part: part[0].begin):
        # Horovod begins an exchange after the end of all parts of the one before.
        if all_reduce.begin >= end:
            fused.append(part)
        else:
            first = fused.pop()
            span = (max(first.span[0], part.span[0]), max(first.span[1], part.span[1]))
            size_bytes = first.size_bytes + part.size_bytes
            fused.append(dataclasses.replace(first, span=span, size_bytes=size_bytes))
        end = max(end, all_reduce.end)
    return fused


def _events_by_tensor(path: Path) -> Iterator[list[Event]]:
    """The events of every tensor that was all-reduced, in the order of their begins."""
    text = path.read_text(encoding="utf-8").strip(" \n[,]")
    open_spans, events = defaultdict(list), defaultdict(list)
    # A truncated file ends with a comma, or without the list's closing bracket.
    for event in json.loads(f"[{text}]"):
        tensor = event.get("pid")
        if event.get("ph") == "B":
            open_spans[tensor].append((event["name"], event["ts"] / 1e6))
        elif event.get("ph") == "E" and open_spans[tensor]:
            name, begin = open_spans[tensor].pop()
            events[tensor].append(Event(name, begin, event["ts"] / 1e6, event.get("args", {})))
    for tensor_events in events.values():
        if any(event.name == WHOLE for event in tensor_events):
            yield sorted(tensor_events, key=lambda event: event.begin)
