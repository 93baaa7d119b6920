"""Whether what a JSON file holds is of the types that a dataclass gives its fields."""

import dataclasses
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from types import UnionType
from typing import Literal, get_args, get_origin, get_type_hints

_IN_JSON = {float: {float, int}, Path: {str}}
"""What JSON has for a type that it lacks: a whole number may stand for any number, and text for a path."""


def misfits(values: Mapping[str, object], shape: type) -> list[str]:
    """The names in `values` that are fields of the dataclass `shape`, and whose values can't be theirs.

    It understands names of types, `|`, `Literal`, lists, tuples of one type and dictionaries, all of which it looks
    into; `object` is anything. A field without a value is no misfit.
    """
    return [name for name, hint in _hints(shape).items() if name in values and not _fit([values[name]], hint)]


@cache
def _hints(shape: type) -> dict[str, object]:
    hints = get_type_hints(shape)
    return {each.name: hints[each.name] for each in dataclasses.fields(shape)}


def _fit(values: Iterable[object], hint: object) -> bool:
    """Whether all `values` are of this type: together, since a record has thousands of numbers in its lists."""
    origin, parts = get_origin(hint), get_args(hint)
    if hint is object:
        return True
    if origin is Literal:
        return all(value in parts for value in values)
    if origin in (list, tuple, dict):
        values = list(values)
        if not all(isinstance(value, dict if origin is dict else list) for value in values):
            return False
        inside = (value.values() for value in values) if origin is dict else values
        return _fit(chain.from_iterable(inside), parts[1 if origin is dict else 0])
    alternatives = parts if origin is UnionType else (hint,)
    return set(map(type, values)) <= set().union(*(_IN_JSON.get(each, {each}) for each in alternatives))
