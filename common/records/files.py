"""Records as JSON files that nobody changes: written whole or not at all, and refused where they are damaged."""

import dataclasses
from collections.abc import Container, Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar, get_type_hints

import msgspec

from common.contract.task import Task
from common.errors import UserError, print_note
from common.files import write_atomically
from common.records.header import MOST, PRESENTATION, SCHEMA_VERSION, Versioned

Kind = TypeVar("Kind", bound=Versioned)

RUN_AGAIN = "and its session's file `finished`, and run the same command again"
"""What makes a launch again whose record is deleted; without a session there is no such file."""

_REMEDY = f"delete it {RUN_AGAIN}"
_MOST_LETTERS = 300

EARLIER_VERSIONS = (3, 4)
"""Schema versions before, which are read as well."""

GONE = {"alone", "replica_checkpoints"}
"""Fields of records of version 3: they told what launches without exchange computed, which now the evidence does."""


def write_record(path: Path, record: Versioned) -> None:
    """Write the record as JSON.

    Fields of PRESENTATION are left out where they are empty. Raises UserError when the folder can't be written to, and
    ValueError for a value that its field can't have, such as one that isn't finite.
    """
    values: dict[str, object] = msgspec.to_builtins(record, enc_hook=str)
    msgspec.convert(values, type(record), dec_hook=_path)
    kept = {name: value for name, value in values.items() if value or name not in PRESENTATION}
    write_atomically(path, msgspec.json.format(msgspec.json.encode(kept)) + b"\n")


def read_record(path: Path, kind: type[Kind]) -> Kind:
    """The record of this kind in `path`. Raises UserError when it is damaged or of an unknown schema version."""
    try:
        # This decoder refuses what is no UTF-8 and numbers out of range, as Python's own doesn't.
        content: object = msgspec.json.decode(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} isn't a record that can be read ({_one_line(str(error))}): {_REMEDY}.") from error
    values: dict[str, object] = content if isinstance(content, dict) else {}
    if "schema_version" not in values:
        raise UserError(f"{path} never was a record of this program: move it out of the folder.")
    version = values["schema_version"]
    if type(version) is not int or version not in (SCHEMA_VERSION, *EARLIER_VERSIONS):
        which = _one_line(str(version)) if type(version) is int else "that isn't a number"
        raise UserError(f"{path} is of schema version {which}, this program reads {SCHEMA_VERSION}: {_REMEDY}.")
    try:
        record = from_json(_lifted(values), kind)
        if flaw := next(iter(record.flaws()), ""):
            raise ValueError(flaw)
    except (UserError, ValueError, TypeError) as error:
        raise UserError(f"{path} is damaged ({_one_line(str(error))}): {_REMEDY}.") from error
    return record


def record_paths(folder: Path) -> list[Path]:
    """The files in `folder` that may be records, in their order. Other systems leave a hidden file beside each."""
    return [path for path in sorted(folder.glob("*.json")) if not path.name.startswith(".")]


def read_records(folder: Path, kind: type[Kind]) -> dict[str, Kind]:
    """Every record in `folder` by its launch, in their order. A note names each that is damaged, and is left out."""
    records: dict[str, Kind] = {}
    for path in record_paths(folder):
        try:
            records[path.stem] = read_record(path, kind)
        except UserError as error:
            print_note(f"it counts as not run: {error}")
    return records


def damaged_records(folder: Path, kind: type[Kind], records: Container[str]) -> dict[str, str]:
    """Return by launch, in a sentence, why each file of the folder that isn't among the `records` can't be read."""
    sentences: dict[str, str] = {}
    for path in record_paths(folder):
        if path.stem not in records:
            try:
                read_record(path, kind)
            except UserError as error:
                sentences[path.stem] = str(error)
    return sentences


def to_json(values: object) -> object:
    """What JSON has for these values, in which there may be structs, dataclasses and paths."""
    return msgspec.to_builtins(values, enc_hook=str)


def from_json(values: Mapping[str, object], kind: type[Kind]) -> Kind:
    """The struct whose fields are given by name, as JSON has them or as they are.

    Raises ValueError for a value that its field can't have, and UserError for a task that can't be meant.
    """
    # What is unknown or missing in a dataclass passes msgspec.
    for name, names in _fields_of_dataclasses(kind).items():
        given = values.get(name)
        if not isinstance(given, dict):
            continue
        if missing := [each for each in names if each not in given]:
            raise ValueError(f"its {name} lacks {', '.join(missing)}")
        if unknown := given.keys() - {*names}:
            raise ValueError(f"its {name} has no {min(unknown)}")
        if large := [each for each in names if isinstance(given[each], int | float) and abs(given[each]) > MOST]:
            raise ValueError(f"its {name} has too large a number of {', '.join(large)}")
    return msgspec.convert(values, kind, dec_hook=_path)


@cache
def _fields_of_dataclasses(kind: type) -> dict[str, list[str]]:
    """The names in each dataclass that is a field of the struct."""
    shapes = {name: shape for name, shape in get_type_hints(kind).items() if dataclasses.is_dataclass(shape)}
    return {name: [each.name for each in dataclasses.fields(shape)] for name, shape in shapes.items()}


def _one_line(text: str) -> str:
    """The text as a part of a sentence: whoever wrote the file has chosen some of its words."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:_MOST_LETTERS]).rstrip(".")


def _path(shape: type, value: object) -> object:
    if shape is Path and isinstance(value, str | Path):
        return Path(value)
    raise TypeError(f"{value!r:.40} is no {shape.__name__}")


def _lifted(values: Mapping[str, object]) -> dict[str, object]:
    """The values of a record of an earlier commit, as now. Options that a task lacked are at their defaults."""
    fields = dict(values)
    # The calls of a sweep could be a loop, timed as one. A record of such a sweep isn't read any more.
    if isinstance(sweep := values.get("sweep"), dict) and sweep.get("pipelined") is False:
        fields["sweep"] = {name: value for name, value in sweep.items() if name != "pipelined"}
    if values["schema_version"] == SCHEMA_VERSION:
        return fields
    if isinstance(task := values.get("task"), dict):
        fields["task"] = {**msgspec.to_builtins(Task(), enc_hook=str), **task}
    kept = {name: value for name, value in fields.items() if name not in GONE}
    return kept | {"schema_version": SCHEMA_VERSION}
