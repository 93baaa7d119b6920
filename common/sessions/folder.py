"""The folder of one session, which goes on in it where it was interrupted."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import secrets
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from common.errors import UserError
from common.files import write_atomically
from common.sessions import identity

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Row = TypeVar("Row", bound="DataclassInstance")

FINISHED = "finished"
"""The file that a folder has from the end of its session on."""

_OPTIONS, _FINGERPRINT, _VARIABLES = "options.txt", "fingerprint.txt", "variables.txt"


def unfinished_or_new(results: Path, kind: str, options: str) -> Path:
    """The newest folder of this kind in `results` that was begun as this and didn't come to its end, else a new one.

    `options` say what was asked for. A folder goes on only with the same code, packages, variables and machine; where
    they alone differ, that is printed. A new folder keeps the variables that the user had set and frameworks obey.
    Raises UserError where no folder can be made.
    """
    variables = identity.obeyed_variables()
    fingerprint = identity.fingerprint(variables)
    if variables:
        print(f"Frameworks obey variables that are set here: {variables_in_words(variables)}.", flush=True)
    for folder in sorted(results.glob(f"*-{kind}"), reverse=True):
        if (folder / FINISHED).exists() or _text(folder / _OPTIONS) != options:
            continue
        if _text(folder / _FINGERPRINT) == fingerprint:
            return folder
        print(f"{folder} doesn't go on: code, packages, variables or machine changed since it was begun.", flush=True)
        break
    folder = results / f"{datetime.now(UTC).strftime('%Y%m%dT%H%M%S')}-{kind}"
    write_atomically(folder / _VARIABLES, f"{json.dumps(variables, indent=1)}\n".encode())
    write_atomically(folder / _FINGERPRINT, fingerprint.encode())
    write_atomically(folder / _OPTIONS, options.encode())
    return folder


def kept_variables(folder: Path) -> dict[str, str] | None:
    """The variables that frameworks obey, as the user had set them when the session in the folder began.

    None where nobody kept them. Raises UserError where the file is damaged.
    """
    path = folder / _VARIABLES
    if not path.exists():
        return None
    try:
        return {str(name): str(value) for name, value in json.loads(path.read_text(encoding="utf-8")).items()}
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(f"{path} can't be read ({error}): delete it or run the session again.") from error


def variables_in_words(variables: Mapping[str, str] | None, over_hosts: bool = False) -> str:
    """The variables and their values in one line; `over_hosts` says that ssh started the launches."""
    if variables is None:
        return "unknown: the folder has no variables.txt"
    values = {name: value if value.isprintable() else ascii(value) for name, value in variables.items()}
    words = ", ".join(f"{name}={value}" for name, value in values.items()) or "none"
    where = " where the session was started, which hosts don't get; their own variables aren't known"
    return words + where if over_hosts else words


def order_seed(folder: Path, asked_for: int | None) -> int:
    """Seed of the order of launches: the one that the folder was begun with, else the one asked for, else a new one."""
    marker = folder / "order_seed.txt"
    if not marker.exists():
        write_atomically(marker, str(secrets.randbelow(2**31) if asked_for is None else asked_for).encode())
    return int(marker.read_text(encoding="utf-8"))


def write_rows(path: Path, rows: Iterable[Row], kind: type[Row]) -> None:
    """Write a table whole or not at all: the names of the row's fields, then the rows, with None as an empty cell."""
    names, table = [each.name for each in dataclasses.fields(kind)], io.StringIO()
    lines = [[getattr(row, name) for name in names] for row in rows]
    csv.writer(table, lineterminator="\n").writerows([names, *lines])
    write_atomically(path, table.getvalue().encode())


def read_rows(path: Path, kind: type[Row]) -> list[Row]:
    """The rows of a table, without columns of other names; empty cells have the field's default.

    Raises OSError or ValueError where it can't be read, lacks a column, or has a value that can't be meant.
    """
    with path.open(encoding="utf-8", newline="") as file:
        table = csv.DictReader(file)
        if lacking := {each.name for each in dataclasses.fields(kind)} - {*(table.fieldnames or ())}:
            raise ValueError(f"it has no column {', '.join(sorted(lacking))}")
        filled = [{name: cell for name, cell in line.items() if cell} for line in table]
        return [msgspec.convert(line, kind, strict=False) for line in filled]


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else None
