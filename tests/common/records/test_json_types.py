"""common/records/json_types.py: what fits the types of a dataclass, and what doesn't."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from common.records.json_types import misfits


@dataclass(frozen=True)
class Shape:
    count: int = 0
    share: float | None = None
    name: str = ""
    flag: bool = False
    kind: Literal["weak", "strong"] = "weak"
    file: Path | None = None
    widths: tuple[int, ...] = ()
    rows: list[list[float | None]] = ()
    windows: list[dict[str, float]] = ()
    anything: dict[str, object] = None


FITTING = {
    **{"count": 3, "share": 1, "name": "x", "flag": True, "kind": "strong", "file": "a/b", "widths": [1, 2]},
    **{"rows": [[0.5, None, 2], []], "windows": [{"seconds": 0.5, "rank": 1}, {}], "anything": {"x": [None]}},
}


def test_values_of_their_types_fit_and_so_does_null_where_it_may_stand():
    assert misfits(FITTING, Shape) == []
    assert misfits({"share": None, "file": None, "rows": []}, Shape) == []


@pytest.mark.parametrize(
    "wrong",
    [
        *[{"count": 2.5}, {"count": True}, {"count": None}, {"share": "1"}, {"share": False}, {"name": 3}],
        *[{"flag": 1}, {"kind": "other"}, {"kind": []}, {"file": 3}, {"widths": [1, None]}, {"widths": 3}],
        *[{"rows": [[0.5], None]}, {"rows": [["x"]]}, {"rows": {}}, {"windows": [{"seconds": None}]}],
        *[{"windows": [[]]}, {"windows": "x"}, {"anything": []}, {"anything": None}],
    ],
    ids=str,
)
def test_a_value_of_another_type_is_named_and_no_other(wrong):
    assert misfits(FITTING | wrong, Shape) == [*wrong]


def test_what_is_no_field_or_has_no_value_is_no_misfit():
    assert misfits({"nobody": object(), "count": 1}, Shape) == []
