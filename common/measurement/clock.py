"""The clock of windows of steps: waiting for a device after each step would destroy the overlap that is measured."""

import time
from collections.abc import Callable, Sequence
from itertools import pairwise

from common.measurement import machine, startup
from common.measurement.disturbance import Meter
from common.measurement.startup import Moment
from common.measurement.windows import Windows
from common.records.training import Startup, Window


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
