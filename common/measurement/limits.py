"""The limits on memory and cores that control groups set for this process, as in batch jobs and containers.

A quota lets a group's processes run for a part of each period, and then stops them until the next one begins
(kernel's sched-bwc.rst).
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from common.records.header import Amount, Count, Machine, Part

_MOUNT = Path("/sys/fs/cgroup")


class Limits(Part, frozen=True, kw_only=True):
    """The tightest limits of this process's control groups; None: nothing limits it."""

    memory_bytes: Count | None = None
    cores: Amount | None = None
    """As many cores' time as they may have together, which may be a fraction."""


def of_this_process(groups: str | None = None, mount: Path = _MOUNT) -> Limits:
    """The limits of the control groups in the text `groups`; none given: this process's (cgroups(7), /proc/PID/cgroup).

    A group is limited by those above it as well, and so the smallest value counts.
    """
    all_folders = [*folders(groups, mount)]
    memory = [_number(folder / name) for folder in all_folders for name in ("memory.max", "memory.limit_in_bytes")]
    # Without a limit version 1 has the largest multiple of a page's size (kernel's cgroup-v1/memory.rst).
    bounded = [value for value in memory if value is not None and value < 2**62]
    cores = [share for folder in all_folders if (share := _cores(folder)) is not None]
    return Limits(memory_bytes=min(bounded, default=None), cores=min(cores, default=None))


def usable_cores() -> int:
    """Return how many cores this process and those it starts may use, by affinity and by quota: 1 at least."""
    machine = Machine(cores=len(os.sched_getaffinity(0)), core_limit=of_this_process().cores)
    return machine.usable_cores or 1


def throttles(groups: str | None = None, mount: Path = _MOUNT) -> list[Path]:
    """Return the file `cpu.stat` of each group that has a quota."""
    files = [folder / "cpu.stat" for folder in folders(groups, mount) if _cores(folder) is not None]
    return [file for file in files if file.is_file()]


def throttled_seconds(files: Iterable[Path]) -> float:
    """Return for how long a quota has kept processes off their cores, on all cores together.

    Of nested groups the longest counts: they stop the same processes.
    """
    longest = 0.0
    for file in files:
        # Microseconds in version 2, nanoseconds in version 1.
        if match := re.search(r"^throttled_(usec|time) (\d+)$", file.read_text(encoding="utf-8"), re.MULTILINE):
            longest = max(longest, int(match[2]) * {"usec": 1e-6, "time": 1e-9}[match[1]])
    return longest


def folders(groups: str | None = None, mount: Path = _MOUNT) -> Iterator[Path]:
    """The folders of each control group and of those above it: `0::/path` is version 2, `4:cpu,cpuacct:/path` 1."""
    text = Path("/proc/self/cgroup").read_text(encoding="utf-8") if groups is None else groups
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        names = (controllers, *controllers.split(","))
        # Of version 1 a controller has several names, which are links to one folder.
        for root in dict.fromkeys((mount / name).resolve() for name in names):
            group = Path(os.path.normpath(root / path.lstrip("/")))
            while group.is_relative_to(root):
                yield group
                group = group.parent


def _cores(folder: Path) -> float | None:
    """Quota over period: one line of both in version 2, and a file for each in version 1 (-1: without a limit)."""
    try:
        quota, period = (folder / "cpu.max").read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        quota, period = str(_number(folder / "cpu.cfs_quota_us")), str(_number(folder / "cpu.cfs_period_us"))
    return int(quota) / int(period) if quota.isdecimal() and period.isdecimal() else None


def _number(path: Path) -> int | None:
    """The whole number in a file; None where there is none."""
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
