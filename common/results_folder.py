"""The folder of one comparison or calibration, which goes on in it where it was interrupted."""

import secrets
from datetime import UTC, datetime
from pathlib import Path

from common.files import write_atomically


def unfinished_or_new(results: Path, kind: str, identity: str, last: str) -> Path:
    """The newest folder of this kind in `results` that was begun as this and didn't come to its end, else a new one.

    `identity` says what must be the same to go on there, and `last` names the file that is written at the end. Raises
    UserError where no folder can be made.
    """
    for folder in sorted(results.glob(f"*-{kind}"), reverse=True):
        marker = folder / "options.txt"
        if marker.exists() and not (folder / last).exists() and marker.read_text() == identity:
            return folder
    folder = results / f"{datetime.now(UTC).strftime('%Y%m%dT%H%M%S')}-{kind}"
    write_atomically(folder / "options.txt", identity.encode())
    return folder


def order_seed(folder: Path, asked_for: int | None) -> int:
    """Seed of the order of launches: the one that the folder was begun with, else the one asked for, else a new one."""
    marker = folder / "order_seed.txt"
    if not marker.exists():
        write_atomically(marker, str(secrets.randbelow(2**31) if asked_for is None else asked_for).encode())
    return int(marker.read_text())
