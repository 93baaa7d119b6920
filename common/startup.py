"""How long this process has been running, and how much of that its script's imports took."""

import os
import time
from pathlib import Path

_imports_seconds = 0.0


def seconds_since_start() -> float:
    """Seconds since the kernel started this process, to a hundredth.

    By the clock that counts from the machine's boot, on which the kernel notes when a process starts (proc(5),
    /proc/pid/stat, field 22). The time of day of that boot is known to whole seconds alone.
    """
    # The second field, the program's name in parentheses, may hold spaces and parentheses itself.
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[22 - 3]) / os.sysconf("SC_CLK_TCK")


def note_imports() -> None:
    """Note that the script's imports are done."""
    global _imports_seconds
    _imports_seconds = seconds_since_start()


def imports_seconds() -> float:
    """Seconds from the start of this process to the end of its script's imports; 0 where nobody noted it."""
    return _imports_seconds
