"""Files that other processes see whole or not at all."""

import errno
import os
import tempfile
from pathlib import Path

from common.errors import UserError


def write_atomically(path: Path, content: bytes) -> None:
    """Write `path` under a temporary name, then rename it. Raises UserError when its folder isn't writable."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
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


def _unwritable(path: Path, error: OSError) -> UserError:
    return UserError(f"{path} can't be written ({error.strerror}): choose a folder that you may write to.")
