"""What takes long and is tried by `nox -s contract` alone."""

from collections.abc import Collection, Iterable

import pytest


def in_grid(values: Iterable[object], often: Collection[object] = ()) -> list[object]:
    """Parameters, of which `often` are tried in every run of the tests and the others in the grid."""
    marks = {True: [], False: [pytest.mark.grid]}
    return [
        pytest.param(*(each if isinstance(each, tuple) else (each,)), marks=marks[each in often]) for each in values
    ]
