"""Horovod's timeline, its own account of what it does with each gradient and when, summed up for the record.

The file is in the Trace Event Format of chrome://tracing: each tensor is a `pid` with nested begin (B) and end (E)
events, whose `ts` count microseconds (Horovod's docs/timeline.rst names the phases).
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

Span = tuple[float, float]
"""Begin and end, in microseconds."""

COPIES = ("MEMCPY_IN_FUSION_BUFFER", "MEMCPY_OUT_FUSION_BUFFER")
WHOLE = "ALLREDUCE"
"""The event around everything that follows the negotiation of a tensor."""


MEANINGS = {
    "negotiation": "from the first worker that had the gradient ready to the agreement that all have",
    "queueing": "from that agreement until its exchange began",
    "copying": "into the buffer of the fused gradients and out of it",
    "all-reduce": "the exchange itself",
}
"""The phases of a gradient's exchange. Those of different gradients may overlap, and the computing goes on beside the
first ones."""


def summarise(path: Path) -> list[dict[str, object]]:
    """How long, in seconds over a whole timeline, at least one gradient was in each phase: as a record's `phases`."""
    spans: dict[str, list[Span]] = {name: [] for name in MEANINGS}
    for events in _spans_by_tensor(_read(path)):
        agreed = None
        for name, begin, end in events:
            if name.startswith("NEGOTIATE_"):
                spans["negotiation"].append((begin, end))
                agreed = end
            elif name != WHOLE:
                if agreed is not None:
                    spans["queueing"].append((agreed, begin))
                    agreed = None
                spans["copying" if name in COPIES else "all-reduce"].append((begin, end))
    return [
        {"name": name, "seconds": _covered(spans[name]) / 1e6, "meaning": meaning} for name, meaning in MEANINGS.items()
    ]


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


def _spans_by_tensor(events: Iterable[dict]) -> Iterator[list[tuple[str, float, float]]]:
    """Of every tensor that was all-reduced its events as (name, begin, end), in the order of their begins."""
    open_spans, spans = defaultdict(list), defaultdict(list)
    for event in events:
        tensor = event.get("pid")
        if event.get("ph") == "B":
            open_spans[tensor].append((event["name"], event["ts"]))
        elif event.get("ph") == "E" and open_spans[tensor]:
            name, begin = open_spans[tensor].pop()
            spans[tensor].append((name, begin, event["ts"]))
    for own in spans.values():
        if any(name == WHOLE for name, _, _ in own):
            yield sorted(own, key=lambda span: span[1])


def _covered(spans: list[Span]) -> float:
    """How long at least one of the spans lasts."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total
