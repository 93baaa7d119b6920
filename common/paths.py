"""Where the repository is. Standard library only: the noxfile's modules use it."""

from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent
"""The repository's root."""


def new_record(about: str) -> Path:
    """The path of a record in `results` that no other launch has; its name begins with what it is `about`."""
    return ROOT / "results" / f"{about}-{datetime.now(UTC):%Y%m%dT%H%M%S%f}.json"
