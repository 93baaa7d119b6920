"""Dataclasses as JSON files that nobody changes: written whole or not at all, and refused where they're damaged."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from common.errors import UserError
from common.files import write_atomically
from common.records.json_types import misfits


def write_dataclass(path: Path, values: object, indent: int | None = None) -> None:
    """Write the dataclass's fields as JSON. Raises UserError when the folder can't be written to."""
    content = json.dumps(dataclasses.asdict(values), indent=indent, allow_nan=False)
    write_atomically(path, f"{content}\n".encode())


def read_dataclass(path: Path, kind: type, what: str, remedy: str, inside: tuple[str, type] | None = None) -> Any:  # noqa: ANN401
    """The `kind` in `path`, whose default `schema_version` is the one that this program reads.

    `what` it is, such as `a record of collectives`, and the `remedy` are for the error. `inside` is the name of
    a field that lists dataclasses, and their type. Raises UserError when it is damaged or of another schema version.
    """
    try:
        values = json.loads(path.read_text(), parse_constant=_refuse)
        version = values["schema_version"]
        if version == kind.schema_version:
            field, of = inside or (None, kind)
            parts = values[field] if field else []
            wrong = misfits(values | ({field: []} if field else {}), kind)
            wrong += sorted({name for part in parts for name in misfits(part, of)})
            if not wrong:
                return kind(**values | ({field: [of(**part) for part in parts]} if field else {}))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} isn't {what} that can be read ({error}): {remedy}.") from error
    if version != kind.schema_version:
        raise UserError(f"{path} is of schema version {version}, this program reads {kind.schema_version}: {remedy}.")
    _, noun, *_ = what.split()
    raise UserError(f"{path} is damaged (no {noun} has such a value of {', '.join(wrong)}): {remedy}.")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
