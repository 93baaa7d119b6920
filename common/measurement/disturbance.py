"""What else went on around a window: other processes on its cores, the hypervisor, slower cores than usual."""

import multiprocessing
import os
import resource
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from common.measurement import limits
from common.records.training import TICK_SECONDS, Window

STAT = Path("/proc/stat")
CPUS = Path("/sys/devices/system/cpu")

# Ranks meet again in the first exchange of a window: the less all this takes, the less it can take one of them longer.
_SPIN_STEPS = 1500
_SPIN_TRIES = 3


class Meter:
    """Reads what happened around each window of this process, which is kept on `pinned_cores`.

    Without any it shares cores with the rest of its launch, and how busy these were isn't told.
    """

    def __init__(self, pinned_cores: Sequence[int]) -> None:
        self._is_pinned = bool(pinned_cores)
        self._cores = sorted(pinned_cores or os.sched_getaffinity(0))
        self._throttles = limits.throttles()
        self._spin_seconds = 0.0
        self._before = _Reading(0.0, 0.0, 0, None, 0.0)

    def start(self) -> None:
        """Read everything, last what counts on, just before the clock of a window starts."""
        self._spin_seconds = spin_seconds()
        self._before = _read(self._cores, self._throttles)

    def stop(self, window: Window) -> Window:
        """The window, whose clock has stopped, with what happened since `start`: None where the kernel doesn't tell."""
        before, after = self._before, _read(self._cores, self._throttles)
        core_seconds = steal_seconds = busy_seconds = None
        if before.cores and after.cores:
            core_seconds = len(self._cores) * (after.seconds - before.seconds)
            steal_seconds = after.cores.steal_seconds - before.cores.steal_seconds
            # Processes that this one started, such as those that load its rows, would count as strangers.
            if self._is_pinned and not multiprocessing.active_children():
                rest_seconds = after.cores.rest_seconds - before.cores.rest_seconds
                busy_seconds = core_seconds - steal_seconds - rest_seconds
        megahertz: list[float] = []
        for core in self._cores if self._is_pinned else ():
            # A virtual machine's cores have no clock that the kernel knows.
            with suppress(OSError, ValueError):
                rate = CPUS / f"cpu{core}" / "cpufreq" / "scaling_cur_freq"
                megahertz.append(int(rate.read_text(encoding="utf-8")) / 1000)
        return structs.replace(
            window,
            own_seconds=after.own_seconds - before.own_seconds,
            involuntary_switches=after.involuntary_switches - before.involuntary_switches,
            core_seconds=core_seconds,
            steal_seconds=steal_seconds,
            throttled_seconds=after.throttled_seconds - before.throttled_seconds if self._throttles else None,
            busy_seconds=busy_seconds,
            clock_megahertz=statistics.fmean(megahertz) if megahertz else None,
            spin_seconds=(self._spin_seconds + spin_seconds()) / 2,
        )


def spin_seconds() -> float:
    """How long a fixed piece of integer work takes on this core: about 0.1 ms, the shortest of three tries.

    A slower clock or a busy sibling on the same physical core lengthens all three; counters show what interrupts one.
    """
    return min(_spin() for _ in range(_SPIN_TRIES))


def _spin() -> float:
    start = time.perf_counter()
    value = 0
    for number in range(_SPIN_STEPS):
        value = (5 * value + number) % 2_147_483_647
    return time.perf_counter() - start


@dataclass(frozen=True)
class _CoreTimes:
    """Seconds since the machine's boot of some cores together."""

    steal_seconds: float
    rest_seconds: float
    """Neither stolen nor spent on any process: idle, waiting for a disk, or serving interrupts."""


@dataclass(frozen=True)
class _Reading:
    seconds: float
    own_seconds: float
    """Processor time of all threads of this process."""
    involuntary_switches: int
    cores: _CoreTimes | None
    """None where the kernel lacks one of these cores, or counts nothing, as some containers' does."""
    throttled_seconds: float


def _read(cores: Sequence[int], throttles: Sequence[Path]) -> _Reading:
    """Read everything, the cores' times by /proc/stat (proc(5)).

    Linux measures how long a core is idle, where it sleeps through the ticks, and samples at ticks what runs: what
    isn't idle is the better measure of what is busy.
    """
    switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
    names = {b"cpu%d" % core for core in cores}
    ticks: list[list[int]] = []
    with suppress(OSError, ValueError):
        for line in STAT.read_bytes().splitlines():
            name, _, counts = line.partition(b" ")
            if name in names:
                ticks.append([int(count) for count in counts.split()])
    times = None
    if len(ticks) == len(names) and all(len(counts) >= 8 and any(counts) for counts in ticks):
        # user, nice, system, idle, iowait, irq, softirq, steal, and guests', which are in user and nice too.
        rest, steal = sum(sum(counts[3:7]) for counts in ticks), sum(counts[7] for counts in ticks)
        times = _CoreTimes(steal * TICK_SECONDS, rest * TICK_SECONDS)
    throttled_seconds = limits.throttled_seconds(throttles)
    return _Reading(time.perf_counter(), time.process_time(), switches, times, throttled_seconds)
