"""The environment variables that frameworks obey, as the user had set them when a session began."""

import json
from collections.abc import Mapping
from pathlib import Path

from common.errors import UserError
from common.files import write_atomically

FILE = "variables.txt"
"""Their file in the session's folder."""


def keep(folder: Path, variables: Mapping[str, str]) -> None:
    """Write them into a session's folder."""
    write_atomically(folder / FILE, f"{json.dumps(variables, indent=1)}\n".encode())


def read(folder: Path) -> dict[str, str] | None:
    """The variables that frameworks obey, as the user had set them when the session in the folder began.

    None where nobody kept them. Raises UserError where the file is damaged.
    """
    path = folder / FILE
    if not path.exists():
        return None
    try:
        return {str(name): str(value) for name, value in json.loads(path.read_text(encoding="utf-8")).items()}
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(f"{path} can't be read ({error}): delete it or run the session again.") from error


def in_words(variables: Mapping[str, str] | None, over_hosts: bool = False) -> str:
    """The variables and their values in one line; `over_hosts` says that ssh started the launches."""
    if variables is None:
        return "unknown: the folder has no variables.txt"
    values = {name: value if value.isprintable() else ascii(value) for name, value in variables.items()}
    words = ", ".join(f"{name}={value}" for name, value in values.items()) or "none"
    where = " where the session was started, which hosts don't get; their own variables aren't known"
    return words + where if over_hosts else words
