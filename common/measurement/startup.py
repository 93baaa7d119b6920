"""How long this process has been running, what it computed meanwhile, and what it tells its launch of how far it is."""

import os
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from common import errors

FOLDER = "LOCKSTEP_STARTUP"
"""Environment variable with the folder in which a launch's processes leave word of how far they are."""

UP, FIRST_STEP = "up-", "first_step"
"""The beginning of the file's name of a process whose imports are done, and the file that says that one has trained."""


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


def leave_word(name: str) -> None:
    """Make the empty file of this name, where whoever started the launch looks for it."""
    if folder := os.environ.get(FOLDER):
        # Word of it is not worth a launch.
        with suppress(OSError):
            Path(folder, name).touch()


def imports() -> Moment:
    """The end of the script's imports, as `exit_with_one_line` noted it; the start of this process where it didn't."""
    if errors.main_began is None:
        return Moment(0.0, 0.0)
    seconds_since_boot, processor_seconds = errors.main_began
    return Moment(seconds_since_boot - process_start_seconds(), processor_seconds)
