"""Files that other processes see whole or not at all, a lock between processes, and the folder of what is cached."""

import contextlib
import errno
import fcntl
import os
import secrets
import tempfile
from collections.abc import Generator
from pathlib import Path

from common.errors import UserError


def write_atomically(path: Path, content: bytes) -> None:
    """Write `path` under a temporary name, then rename it. Raises UserError when its folder isn't writable.

    The file has the mode that the user's umask leaves, as one that `open` makes.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            try:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                os.replace(temporary, path)
            except BaseException:
                os.unlink(temporary)
                raise
    except OSError as error:
        raise _unwritable(path, error) from error


def ensure_writable(path: Path) -> None:
    """Try, before any work is done for it, that `path` can be written. Raises UserError when it can't."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    except OSError as error:
        raise _unwritable(path, error) from error


@contextlib.contextmanager
def locked(path: Path, waiting: str = "", refusal: str = "") -> Generator[int]:
    """Hold the file `path`, which only one process at a time can; another one waits, and prints `waiting` before.

    Gives the lock's file descriptor. The lock ends with the last process that has it, however that ends: a child that
    is given it holds the lock on where its parent was killed. Raises OSError when the file can't be made, and with a
    `refusal` UserError instead of waiting.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if refusal:
                raise UserError(refusal) from error
            if waiting:
                print(waiting, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def cache_folder() -> Path:
    """Where data and wheels are kept for the next time: `$XDG_CACHE_HOME/lockstep`, or `~/.cache/lockstep`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "lockstep")


def is_full(error: OSError) -> bool:
    """Whether the error is that of a disk, or of a user's quota of it, without space."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def _unwritable(path: Path, error: OSError) -> UserError:
    remedy = "free some space" if is_full(error) else "choose a folder that you may write to"
    return UserError(f"{path} can't be written ({error.strerror}): {remedy}.")
