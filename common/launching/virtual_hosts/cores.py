"""The cores of each virtual host: which of this machine's, and a share of them by control groups (cgroups(7))."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from common.errors import UserError
from common.measurement import limits

PERIOD_MICROSECONDS = 20_000
"""In which a host gets its share: short, since it stands still for the rest of it."""

FEWEST = 0.05
"""What the kernel can give in one period: a millisecond."""

_PREFIX = "lockstep-"
_REMOVE_SECONDS = 5.0


def cores_of(number: int, count: int, available: Sequence[int], cores_per_host: float | None) -> set[int]:
    """The cores on which the host of this number, counted from 1, runs, of those that `count` hosts share.

    As many as it may use, else as this machine's divide among the hosts, and one at least. Hosts get different ones as
    long as there are any, since each would put its first worker on the first core.
    """
    width = max(1, len(available) // count) if cores_per_host is None else math.ceil(cores_per_host)
    first = (number - 1) * width
    return {available[place % len(available)] for place in range(first, first + min(width, len(available)))}


def make(name: str, cores: float, process: int) -> Path:
    """A new control group of this name, in which the process, and all that it starts, share so many cores.

    Raises UserError where the system doesn't let this user make one.
    """
    problem = "there is no control group for processors"
    quota = round(cores * PERIOD_MICROSECONDS)
    for parent, first_version in _parents():
        folder = parent / f"{_PREFIX}{name}"
        try:
            if first_version:
                settings = {"cpu.cfs_period_us": f"{PERIOD_MICROSECONDS}", "cpu.cfs_quota_us": f"{quota}"}
            else:
                settings = {"cpu.max": f"{quota} {PERIOD_MICROSECONDS}"}
                switch = parent / "cgroup.subtree_control"
                if "cpu" not in switch.read_text(encoding="utf-8").split():
                    switch.write_text("+cpu", encoding="utf-8")
            folder.mkdir()
            for setting, value in settings.items():
                (folder / setting).write_text(f"{value}\n", encoding="utf-8")
            (folder / "cgroup.procs").write_text(f"{process}\n", encoding="utf-8")
            return folder
        except OSError as error:
            problem = f"{folder}: {error.strerror}"
            with suppress(OSError):
                folder.rmdir()
    raise UserError(
        f"No part of a core can be given to a virtual host ({problem}): run it as root where control groups are "
        "writable, or leave the cores per host out."
    )


def remove(folder: Path) -> None:
    """Remove a control group whose processes have been killed; one that isn't empty in time stays."""
    deadline = time.monotonic() + _REMOVE_SECONDS
    while folder.exists() and time.monotonic() < deadline:
        with suppress(OSError):
            folder.rmdir()
            return
        time.sleep(0.01)


def remove_abandoned() -> None:
    """Remove what clusters left that couldn't: their makers, whose number is the first in the name, have ended."""
    for parent, _ in _parents():
        for folder in parent.glob(f"{_PREFIX}*-*"):
            maker = folder.name.removeprefix(_PREFIX).partition("-")[0]
            if maker.isdigit() and not Path(f"/proc/{maker}").exists():
                with suppress(OSError):
                    folder.rmdir()


def _parents() -> Iterator[tuple[Path, bool]]:
    """Where control groups for processors may be made, and whether by the first version: near this process's first."""
    for folder in limits.folders():
        if (folder / "cpu.cfs_quota_us").exists():
            yield folder, True
        controllers = folder / "cgroup.controllers"
        if controllers.exists() and "cpu" in controllers.read_text(encoding="utf-8").split():
            yield folder, False
