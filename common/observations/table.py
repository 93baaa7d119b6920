"""All that an experiment observed, as one tidy table: a row for each number of each launch.

Statistics, tables, charts and CSV files read nothing else. What was planned and has no number is in a second table.
"""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What contenders must share so that one can be ahead of the other."""

    subject: str = ""
    """What is measured of each, where an experiment measures several things: such as `all_reduce`."""
    world: str = ""
    """Workers, hosts, link and all else that they share, in words."""
    x: float = 0.0
    """What is varied: such as the size in bytes."""


@dataclass(frozen=True, kw_only=True)
class Observation(Condition):
    """One number of one launch."""

    series: str
    """The contender: a strategy, a library, a way."""
    round: int
    """The block that the launch belongs to: contenders are compared within rounds."""
    launch: str
    """The stem of its record's file."""
    measure: str
    """What the number is, by the name that the experiment gives it."""
    value: float
    low: float = math.nan
    """The beginning of the interval that a model gives the value; NaN: it was measured."""
    high: float = math.nan
    part: str = ""
    """Which part of the measure it is; empty: all of it."""
    oversubscribed: bool = False
    """Whether there were more threads than cores."""


@dataclass(frozen=True, kw_only=True)
class Missing(Condition):
    """What a launch was to observe and didn't; without a subject all that it hadn't come to."""

    series: str
    round: int
    status: str
    """`unsupported` or `failed`."""
    reason: str


CONDITION = [field.name for field in dataclasses.fields(Condition)]
"""The columns of a condition."""


def tables(found: Iterable[Observation | Missing]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What was observed and what is missing, a row each, in the order of `found`, with the fields as columns."""
    rows: dict[type, list[dict[str, object]]] = {Observation: [], Missing: []}
    for each in found:
        rows[type(each)].append(dataclasses.asdict(each))
    observed, missing = (
        pd.DataFrame(own, columns=[field.name for field in dataclasses.fields(kind)]) for kind, own in rows.items()
    )
    return observed, missing


def whole(observed: pd.DataFrame, measure: str) -> pd.DataFrame:
    """The rows of one measure, without those of its parts."""
    return observed[(observed["measure"] == measure) & (observed["part"] == "")]
