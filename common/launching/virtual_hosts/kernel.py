"""System calls that Python 3.11 has no function for."""

import ctypes
import os
from pathlib import Path

NEW_TIME, NEW_MOUNTS, NEW_NAME, NEW_IPC, NEW_NETWORK = 0x80, 0x20000, 0x4000000, 0x8000000, 0x40000000
"""Kinds of namespaces, from linux/sched.h."""

_BIND = 0x1000  # From linux/mount.h.
_SET_TIMER_SLACK = 29  # From linux/prctl.h.


def unshare(kinds: int) -> None:
    """Give this process namespaces of its own (unshare(2)); raises OSError."""
    _call("unshare", kinds)


def mount_memory(folder: Path, mode: str = "0755") -> None:
    """Mount an empty file system in memory on the folder (tmpfs(5)); raises OSError."""
    _call("mount", b"tmpfs", os.fsencode(folder), b"tmpfs", ctypes.c_ulong(0), f"mode={mode}".encode())


def bind(source: Path, target: Path) -> None:
    """Show a file or folder in another's place as well (mount(8), --bind); raises OSError."""
    _call("mount", os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(_BIND), None)


def unmount(folder: Path) -> None:
    """Undo the latest mount on the folder; what was bound elsewhere stays there. Raises OSError."""
    _call("umount2", os.fsencode(folder), 0)


def wake_up_in_time() -> None:
    """Have this process's timers end when they are due, instead of up to 50 microseconds later (prctl(2))."""
    _call("prctl", _SET_TIMER_SLACK, ctypes.c_ulong(1))


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
