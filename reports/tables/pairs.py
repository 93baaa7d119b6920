"""How many times as long a step takes in one launch as in another, from pairs of launches of the same round."""

import math

import pandas as pd

from common.declarations.strategy import CONVENIENCE_OF, ONE_PROCESS_OF
from common.statistics.intervals import Interval, median_interval
from reports.tables import columns

_COLUMNS = ["regime", "first", "second", "workers", "pairs", "first_seconds", "second_seconds", "factor", "low", "high"]


def table(launch_table: pd.DataFrame, plan: pd.DataFrame | None) -> pd.DataFrame:
    """What options, a library's loop and one process change, one after another: rows of the functions below."""
    changes = {
        "options": against_default(launch_table, plan),
        "library's loop": factors(launch_table, plan, CONVENIENCE_OF),
        "one process": factors(launch_table, plan, ONE_PROCESS_OF),
    }
    rows = ({"change": change} | row for change, found in changes.items() for row in found.to_dict("records"))
    return columns.table("factors", rows)


def factors(launch_table: pd.DataFrame, plan: pd.DataFrame | None, relation: str) -> pd.DataFrame:
    """How many times as long a step takes with each strategy that has this `relation` as with the one that it names.

    One row for each regime and number of workers with launches of both, under the same label and with as many rows in a
    step; `first` is the strategy that is named. Launches of the same round met the same machine (`with_rounds`).
    """
    trained = with_rounds(launch_table[launch_table["exchange"]], plan)
    related = trained.assign(named=trained["compared_with"].map(lambda relations: relations.get(relation, "")))
    same = ["regime", "workers", "label", "global_batch", "round"]
    matched = trained.merge(
        related,
        left_on=["bare_strategy", *same],
        right_on=["named", *same],
        suffixes=("_first", ""),
    )
    return _rows(matched, ["regime", "workers", "named", "bare_strategy", "label"])


def against_default(launch_table: pd.DataFrame, plan: pd.DataFrame | None) -> pd.DataFrame:
    """How many times as long a step takes with options of a strategy's own as with all of them at their default.

    As `factors`, for each label of each strategy that was measured with all options at their default on the same hosts
    too: that is the `first`.
    """
    trained = with_rounds(launch_table[launch_table["exchange"]], plan)
    labelled = trained["options"] != ""
    same = ["regime", "workers", "bare_strategy", "placement", "global_batch", "round"]
    matched = trained[~labelled].merge(trained[labelled], on=same, suffixes=("_first", ""))
    return _rows(matched, ["regime", "workers", "bare_strategy", "label"])


def with_rounds(launch_table: pd.DataFrame, plan: pd.DataFrame | None) -> pd.DataFrame:
    """The launches, each with its `round`: the plan's, else its place, from 1, among its equals in their names' order.

    With a plan, launches that it doesn't name are left out.
    """
    if plan is None:
        equals = launch_table.groupby(["regime", "strategy", "workers", "exchange"])
        return launch_table.assign(round=equals.cumcount() + 1)
    rounds = dict(zip(plan["launch"].astype(str), plan["repetition"], strict=True))
    # Pandas would pair launches without a round with each other.
    return launch_table.assign(round=launch_table["launch"].map(rounds)).dropna(subset=["round"])


def interval(values: pd.Series) -> Interval | None:
    """The median over rounds with its interval; None without any round."""
    return median_interval(values.tolist()) if len(values) else None


def median(values: pd.Series) -> tuple[float, float, float, int]:
    """The median over rounds, both ends of its interval, and n; NaN for what doesn't exist."""
    found = interval(values) or Interval(0, math.nan, None, None)
    low, high = (math.nan if end is None else end for end in (found.low, found.high))
    return found.median, low, high, found.n


def columns_of(name: str, values: pd.Series) -> dict[str, float]:
    """The median over rounds, both ends of its interval, and n, by the names of columns that begin with `name`."""
    return dict(zip((name, f"{name}_low", f"{name}_high", f"{name}_n"), median(values), strict=True))


def side(found: Interval | None, middle: float, words: tuple[str, str]) -> str:
    """What an interval over rounds says: one of the `words` where it lies below or above the `middle`."""
    if found is None:
        return "no shared round"
    if found.low is None or found.high is None:
        return "too few rounds"
    below, above = words
    return above if found.low > middle else below if found.high < middle else "can't tell"


def _rows(matched: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """One row for each group of pairs with the same `keys`: a launch of the first strategy (`_first`) and another."""
    rows = []
    for _, group in matched.groupby(keys):
        factor, low, high, count = median(group["seconds"] / group["seconds_first"])
        first, times = group.iloc[0], (group["seconds_first"].median(), group["seconds"].median())
        names = (first["regime"], first["strategy_first"], first["strategy"], first["workers"])
        rows.append((*names, count, *times, factor, low, high))
    return pd.DataFrame(rows, columns=_COLUMNS)
