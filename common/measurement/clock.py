"""The clock of windows of steps: waiting for a device after each step would destroy the overlap that is measured.

A step is evidence if its state is read before and after it, so it is a window of its own, which no clock has. These
steps are taken out of the warm-up, so that as many steps are clocked as without them.
"""

import math
import random
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from common.contract.evidence import FIRST_STEPS
from common.contract.task import Task
from common.measurement import machine, startup
from common.measurement.disturbance import Meter
from common.measurement.startup import Moment
from common.records.training import Startup, Window

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


class Clock:
    """Clocks these `windows` of one process, which had `joined` its world by their first step."""

    def __init__(
        self,
        windows: Windows,
        rank: int,
        synchronize: Callable[[], object],
        joined: Moment,
        pinned_cores: Sequence[int] = (),
    ) -> None:
        self._windows, self._rank, self._synchronize = windows, rank, synchronize
        self.windows: list[Window] = []
        """Every clocked window."""
        self.training_seconds = 0.0
        """Time in all windows so far, those of the warm-up among them."""
        self.startup_seconds: Startup
        """From the start of this process to the end of its first step, from when that ends."""
        self.startup_processor_seconds: Startup
        """What this process computed in each of these parts."""
        self._joined, self._left_out = joined, Moment(0.0, 0.0)
        # When this process started, by the clock of the windows: no window has to wait for it to be looked up.
        self._process_start_seconds = time.perf_counter() - startup.seconds_since_start()
        self.input_seconds: float | None = None
        """How long the worker has waited for its rows in this window: strategies that measure it add to it."""
        self.sent_bytes = 0
        """Bytes that went over the launch's own network, or from this host to its others, in all clocked windows."""
        self._interface = machine.counted_interface()
        self._start_step, self._start_seconds, self._start_bytes = windows.edges[0], 0.0, 0
        self._meter = Meter(pinned_cores)

    def leave_out(self, since: Moment) -> None:
        """Leave out of the time to the first step what has passed since that moment: evidence is no part of it."""
        now, earlier = startup.moment(), self._left_out
        self._left_out = Moment(*(new + after - before for new, after, before in zip(earlier, now, since, strict=True)))

    def start(self, step: int) -> None:
        """Start the clock of the window that `step` begins."""
        if self._interface:
            self._start_bytes = machine.bytes_sent(self._interface)
        self._start_step = step
        self.input_seconds = None if self.input_seconds is None else 0.0
        if self._is_clocked:
            self._meter.start()
        self._start_seconds = time.perf_counter()

    def stop(self, step: int) -> float:
        """Wait for the device, stop the clock before `step`, and return the window's seconds."""
        self._synchronize()
        seconds = time.perf_counter() - self._start_seconds
        self.training_seconds += seconds
        if step == self._windows.edges[1]:
            now = Moment(*(after - left_out for after, left_out in zip(startup.moment(), self._left_out, strict=True)))
            moments = [Moment(0.0, 0.0), startup.imports(), self._joined, now]
            self.startup_seconds = _in_parts([moment.seconds for moment in moments])
            self.startup_processor_seconds = _in_parts([moment.processor_seconds for moment in moments])
        if self._is_clocked:
            # Before the meter, which takes its time: another rank may send for its next window meanwhile.
            if self._interface:
                self.sent_bytes += machine.bytes_sent(self._interface) - self._start_bytes
            window = Window(
                rank=self._rank,
                step=self._start_step,
                steps=step - self._start_step,
                started_seconds=self._start_seconds - self._process_start_seconds,
                seconds=seconds,
                input_seconds=self.input_seconds,
            )
            self.windows.append(self._meter.stop(window))
        return seconds

    @property
    def _is_clocked(self) -> bool:
        return self._start_step not in self._windows.unclocked


def _in_parts(moments: Sequence[float]) -> Startup:
    """What passes from each of the moments to the next."""
    imports, world, first_step = (after - before for before, after in pairwise(moments))
    return Startup(imports=imports, world=world, first_step=first_step)
