"""Tables of a session's folder: a CSV file with a row for each instance of a dataclass."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from common.errors import UserError
from common.files import write_atomically

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Row = TypeVar("Row", bound="DataclassInstance")


def write_rows(path: Path, rows: Iterable[Row], kind: type[Row]) -> None:
    """Write a table whole or not at all: the names of the row's fields, then the rows, with None as an empty cell."""
    names, table = [each.name for each in dataclasses.fields(kind)], io.StringIO()
    lines = [[getattr(row, name) for name in names] for row in rows]
    csv.writer(table, lineterminator="\n").writerows([names, *lines])
    write_atomically(path, table.getvalue().encode())


def read_rows(path: Path, kind: type[Row]) -> list[Row]:
    """The rows of a table, without columns of other names; empty and missing cells have the field's default.

    Raises UserError where it can't be read, lacks a column, or has a value that can't be meant.
    """
    needed = {each.name for each in dataclasses.fields(kind) if each.default is dataclasses.MISSING}
    try:
        with path.open(encoding="utf-8", newline="") as file:
            table = csv.DictReader(file)
            filled = [{name: cell for name, cell in line.items() if name and cell} for line in table]
            lacking = needed - {*(table.fieldnames or ())}
        if lacking:
            raise ValueError(f"it has no column {', '.join(sorted(lacking))}")
        return [msgspec.convert(line, kind, strict=False) for line in filled]
    except (OSError, ValueError, csv.Error) as error:
        raise UserError(f"{path} can't be read ({error}): delete it or run the session again.") from error
