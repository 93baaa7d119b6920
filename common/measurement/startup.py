"""How long this process has been running, what it computed meanwhile, and when its script's imports ended."""

import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from common import errors


class Moment(NamedTuple):
    """A moment of this process's life."""

    seconds: float
    """Since the kernel started it."""
    processor_seconds: float
    """What all of its threads have computed until then."""


def seconds_since_start() -> float:
    """Seconds since the kernel started this process, to a hundredth.

    By the clock that counts from boot, since the time of day of the boot is known to whole seconds alone.
    """
    return time.clock_gettime(time.CLOCK_BOOTTIME) - process_start_seconds()


def started_at() -> str:
    """When the kernel started this process: ISO 8601, UTC."""
    return (datetime.now(UTC) - timedelta(seconds=seconds_since_start())).isoformat(timespec="milliseconds")


def process_start_seconds() -> float:
    """When the kernel started this process, by the clock from boot, to a hundredth (proc(5), /proc/pid/stat)."""
    # The second field, the program's name in parentheses, may hold spaces and parentheses itself.
    fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[22 - 3]) / os.sysconf("SC_CLK_TCK")


def moment() -> Moment:
    """This moment."""
    return Moment(seconds_since_start(), time.process_time())


def imports() -> Moment:
    """The end of the script's imports, as `exit_with_one_line` noted it; the start of this process where it didn't."""
    if errors.main_began is None:
        return Moment(0.0, 0.0)
    seconds_since_boot, processor_seconds = errors.main_began
    return Moment(seconds_since_boot - process_start_seconds(), processor_seconds)
