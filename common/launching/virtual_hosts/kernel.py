"""System calls that Python 3.11 has no function for; each raises OSError."""

import ctypes
import os
from pathlib import Path

NEW_MOUNTS, NEW_NAME, NEW_IPC, NEW_NETWORK = 0x20000, 0x4000000, 0x8000000, 0x40000000
"""Kinds of namespaces, from linux/sched.h."""

_BIND = 0x1000  # From linux/mount.h.


def unshare(kinds: int) -> None:
    """Give this process namespaces of its own (unshare(2))."""
    _call("unshare", kinds)


def enter_network(path: Path) -> None:
    """Move this thread alone to the network namespace at the path (setns(2))."""
    with path.open("rb") as namespace:
        _call("setns", namespace.fileno(), NEW_NETWORK)


def mount_memory(folder: Path, mode: str = "0755") -> None:
    """Mount an empty file system in memory on the folder (tmpfs(5))."""
    _call("mount", b"tmpfs", os.fsencode(folder), b"tmpfs", ctypes.c_ulong(0), f"mode={mode}".encode())


def bind(source: Path, target: Path) -> None:
    """Show a file or folder in another's place as well (mount(8), --bind)."""
    _call("mount", os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(_BIND), None)


def _call(name: str, *arguments: object) -> None:
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
