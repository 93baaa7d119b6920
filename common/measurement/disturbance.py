"""What else went on around a window: other processes on its cores, the hypervisor, cores that were slower than usual.

The worker itself reads it before the clock starts and after it has stopped, so nothing of ours wakes up in between.
"""

import multiprocessing
import os
import resource
import statistics
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

STAT = Path("/proc/stat")
CPUS = Path("/sys/devices/system/cpu")

TICK_SECONDS = 0.01
"""In what steps Linux tells the times of its cores (USER_HZ is 100 on every machine that the frameworks run on)."""

# Ranks meet again in the first exchange of a window: the less all this takes, the less it can take one of them longer.
_SPIN_STEPS = 1500
_SPIN_TRIES = 3


class Disturbance(TypedDict, total=False):
    """What a `Window` says of what disturbed it."""

    own_seconds: float
    involuntary_switches: int
    core_seconds: float
    steal_seconds: float
    busy_seconds: float
    clock_megahertz: float
    spin_seconds: float


class Meter:
    """Reads what happened around each window of this process, which is kept on `pinned_cores`, or on none of its own.

    A process without cores of its own shares them with the rest of its launch, so how busy these were isn't told.
    """

    def __init__(self, pinned_cores: Sequence[int]) -> None:
        self._is_pinned = bool(pinned_cores)
        self._cores = sorted(pinned_cores or os.sched_getaffinity(0))
        self._spin_seconds = 0.0
        self._before = _Reading(0.0, 0.0, 0, None)

    def start(self) -> None:
        """Read everything, last what counts on, just before the clock of a window starts."""
        self._spin_seconds = spin_seconds()
        self._before = _read(self._cores)

    def stop(self) -> Disturbance:
        """What happened since `start`, once the clock has stopped, by the names that a `Window` has for it.

        What the kernel doesn't tell is left out.
        """
        before, after = self._before, _read(self._cores)
        found: Disturbance = {
            "own_seconds": after.own_seconds - before.own_seconds,
            "involuntary_switches": after.involuntary_switches - before.involuntary_switches,
        }
        if before.cores and after.cores:
            core_seconds = len(self._cores) * (after.seconds - before.seconds)
            steal_seconds = after.cores.steal_seconds - before.cores.steal_seconds
            found |= {"core_seconds": core_seconds, "steal_seconds": steal_seconds}
            # Processes that this one started, such as those that load its rows, would count as strangers.
            if self._is_pinned and not multiprocessing.active_children():
                rest_seconds = after.cores.rest_seconds - before.cores.rest_seconds
                found["busy_seconds"] = core_seconds - steal_seconds - rest_seconds
        megahertz = _clock_megahertz(self._cores) if self._is_pinned else []
        if megahertz:
            found["clock_megahertz"] = statistics.fmean(megahertz)
        found["spin_seconds"] = (self._spin_seconds + spin_seconds()) / 2
        return found


def spin_seconds() -> float:
    """How long a fixed piece of integer work takes on this core: about 0.1 ms, the shortest of three tries.

    A slower clock or a busy sibling on the same physical core lengthens all three. What interrupts one of them is what
    the counters show.
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


def _read(cores: Sequence[int]) -> _Reading:
    switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
    times = _core_times(cores)
    return _Reading(time.perf_counter(), time.process_time(), switches, times)


def _core_times(cores: Sequence[int]) -> _CoreTimes | None:
    """By /proc/stat (proc(5)); None where it lacks one of these cores, or counts nothing, as some containers' does.

    Linux measures how long a core is idle, where it sleeps through the ticks, and samples at ticks what runs: what
    isn't idle is the better measure of what is busy.
    """
    names = {b"cpu%d" % core for core in cores}
    told = []
    with suppress(OSError, ValueError):
        for line in STAT.read_bytes().splitlines():
            name, _, counts = line.partition(b" ")
            if name in names:
                told.append([int(count) for count in counts.split()])
    if len(told) < len(names) or not all(len(counts) >= 8 and any(counts) for counts in told):
        return None
    # user, nice, system, idle, iowait, irq, softirq, steal, and guests', which are in user and nice too.
    rest, steal = sum(sum(counts[3:7]) for counts in told), sum(counts[7] for counts in told)
    return _CoreTimes(steal * TICK_SECONDS, rest * TICK_SECONDS)


def _clock_megahertz(cores: Sequence[int]) -> list[float]:
    """The rate of each of these cores that has a clock which the kernel knows; a virtual machine's have none."""
    found = []
    for core in cores:
        with suppress(OSError, ValueError):
            found.append(int((CPUS / f"cpu{core}" / "cpufreq" / "scaling_cur_freq").read_text(encoding="utf-8")) / 1000)
    return found
