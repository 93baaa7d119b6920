"""The windows of a launch: where each ends, which of them the clock has, and which steps are evidence.

A step is evidence if its state is read before and after it, so it is a window of its own, which no clock has. These
steps are taken out of the warm-up, so that as many steps are clocked as without them.
"""

import math
import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from common.contract.evidence import FIRST_STEPS
from common.contract.task import Task

MOST_STATES = FIRST_STEPS + 1 + 2 * 3
"""At so many steps the states are read at most."""

_EVIDENCE, _WARMUP, _CLOCKED = "evidence", "warm-up", "clocked"


@dataclass(frozen=True)
class Windows:
    """The windows of a run from its first step to its last."""

    edges: Sequence[int]
    """The first step of each window, and last the number of steps that are trained."""
    unclocked: frozenset[int]
    """The first steps of those that no clock has."""
    evidence: Sequence[int]
    """The steps, in order, at which the states of all replicas are read; none where nothing is evidence."""

    def end(self, step: int) -> int:
        """The first step after the window that `step` begins."""
        return self.edges[bisect_right(self.edges, step)]


def windows_of(task: Task, first_step: int, draw: float | None) -> Windows:
    """The windows of a run from `first_step` on.

    Windows end after each step that is evidence, after the warm-up, when they are full, at a checkpoint, at a fault and
    with the run. Evidence are the first steps, two where the `draw`, from 0 to below 1, says, between two windows, and
    the last two: fewer where the warm-up is short; None: no step. The first of two tells the second one's velocity.
    """
    warmup, full = task.warmup_steps, task.window_steps
    pairs = 0 if draw is None else min(2, (warmup - 1) // 2)
    singles = 1 if draw is None else max(1, min(FIRST_STEPS, warmup - 2 * pairs))
    clocked = task.steps - first_step - warmup
    count = math.ceil(clocked / full)
    # Before which window: never the first one, where there is another.
    middle = min(count - 1, 1 + int((draw or 0.0) * (count - 1))) if pairs else None

    def lengths() -> Iterator[tuple[int, str]]:
        yield from [(1, _EVIDENCE)] * singles
        yield warmup - singles - 2 * pairs, _WARMUP
        for window in range(count):
            yield from [(1, _EVIDENCE)] * 2 if window == middle else []
            yield min(full, clocked - window * full), _CLOCKED
        yield from [(1, _EVIDENCE)] * 2 if pairs == 2 else []

    edges, unclocked, evidence = [first_step], set[int](), set[int]()
    for length, kind in lengths():
        start, stop = edges[-1], edges[-1] + length
        if not length:
            continue
        cuts = {stop}
        if task.checkpoint_steps:
            cuts |= {*range((start // task.checkpoint_steps + 1) * task.checkpoint_steps, stop, task.checkpoint_steps)}
        if task.fault and task.fault.step and start < task.fault.step < stop:
            cuts.add(task.fault.step)
        edges += sorted(cuts)
        unclocked |= {start, *cuts} - {stop} if kind != _CLOCKED else set()
        evidence |= {start, stop} if kind == _EVIDENCE and draw is not None else set()
    return Windows(edges, frozenset(unclocked), sorted(evidence))


def unforeseen() -> float:
    """A draw that nothing else of a launch knows."""
    return random.SystemRandom().random()
