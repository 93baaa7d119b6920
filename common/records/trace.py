"""The messages of one step of a strategy, as its framework's own tracer saw them, for a replay to send alone.

Nothing is by formula: what a framework fuses, cuts, rounds or sends twice is in it.
"""

from pathlib import Path

from common.errors import UserError
from common.records.files import read_record
from common.records.header import Count, Part, Positive, Seconds, Versioned

FIRST_STEP, STEPS = 10, 10
"""Which steps are traced, counted from the launch's first: frameworks settle how they exchange in the steps before."""

STEP = "step"
"""What a cell with all messages of a step, one after another, is called in place of a collective."""


class Message(Part, frozen=True, kw_only=True):
    """One call of a library of collectives, the same on all ranks."""

    collective: str
    """By its name in `common.contract.collective_meanings`."""
    size_bytes: Count
    """As nccl-tests counts it."""
    backwards: bool = False
    """Whether a send goes from the last rank to the first one."""


class Trace(Versioned, frozen=True, kw_only=True):
    """What the ranks of a strategy sent in a step."""

    strategy: str
    """Its name."""
    workers: Positive
    """Ranks."""
    source: str
    """What told it, in words: the framework's profiler, its timeline or its graph."""
    library: str
    """The library of collectives that carried the messages, by its name."""
    data_type: str
    """NumPy's name of the elements' type."""
    messages: list[Message]
    """The messages of a step, in the order in which they began."""
    under_way_seconds: list[Seconds] = []
    """Of each traced step how long at least one message was under way on the first rank, by the tracer's clock, if it
    has one. Tracing makes a step slower."""


def trace_path(record: Path) -> Path:
    """Where a traced launch leaves its messages: beside its `record`."""
    return record.with_name(f"{record.name}.messages")


def read_trace(path: Path) -> Trace:
    """The trace in `path`. Raises UserError when it is missing, damaged, of another schema version, or empty."""
    trace = read_record(path, Trace)
    if not trace.messages:
        raise UserError(f"{path} has no messages: the strategy sends none that its tracer sees.")
    return trace


def seconds_under_way(spans: list[tuple[float, float]]) -> float:
    """How long at least one of the spans, each a begin and an end in seconds, lasts."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total
