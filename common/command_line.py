"""Options of a command line and the fields that they fill: names, choices, and the line that gives them once more."""

from __future__ import annotations

import dataclasses
import shlex
from functools import cache
from typing import TYPE_CHECKING, Literal, get_args, get_origin, get_type_hints

from common.errors import UserError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def of_session(session: str, arguments: DataclassInstance) -> str:
    """The line that starts a Nox session with these arguments, to be typed into a shell at the repository's root.

    `arguments` is a dataclass that has a default for every field, as tyro reads it. Options at their defaults are left
    out.
    """
    options = options_of(arguments, type(arguments)())
    return shlex.join(["nox", "-s", session, *(["--", *options] if options else [])])


def options_of(values: DataclassInstance, defaults: DataclassInstance) -> list[str]:
    """The options that tyro turns back into this dataclass: each field that differs from `defaults`, one of its kind.

    The fields of a dataclass in it are options without a prefix.
    """
    options = []
    for each in dataclasses.fields(values):
        value, name = getattr(values, each.name), option_name(each.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            options += options_of(value, getattr(defaults, each.name))
        elif value == getattr(defaults, each.name):
            continue
        elif isinstance(value, bool):
            options.append(name if value else name.replace("--", "--no-", 1))
        elif isinstance(value, tuple):
            options += [name, *map(_written, value)]
        else:
            # In one word where a value begins as an option does.
            options += [f"{name}={value}"] if str(value).startswith("-") else [name, _written(value)]
    return options


def _written(value: object) -> str:
    """A value as a user would type it: whole numbers without a point."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def option_name(field_name: str) -> str:
    """How a field is written on the command line: `--batch-size` for `batch_size`."""
    return "--" + field_name.replace("_", "-")


def check_choices(values: DataclassInstance) -> None:
    """Raises UserError when a field of this dataclass has a value that isn't among those of its `Literal` type."""
    for name, choices in _choices(type(values)).items():
        value = getattr(values, name)
        if value not in choices:
            raise UserError(f"{option_name(name)} {value}: choose one of {', '.join(map(str, choices))}.")


@cache
def _choices(kind: type[DataclassInstance]) -> dict[str, tuple[object, ...]]:
    """Of each field of a dataclass with a `Literal` type the values that it names."""
    types = get_type_hints(kind)
    return {
        each.name: get_args(types[each.name])
        for each in dataclasses.fields(kind)
        if get_origin(types[each.name]) is Literal
    }
