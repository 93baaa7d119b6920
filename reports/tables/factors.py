"""How many times as long a step takes where one thing is changed, from pairs of launches of the same round."""

import pandas as pd

from common.declarations.strategy import CONVENIENCE_OF, ONE_PROCESS_OF, name_of
from common.observations import answers
from common.observations.launches import rounds
from common.observations.table import CONDITION
from reports.tables import columns

_CHANGES = {"options": "", "library's loop": CONVENIENCE_OF, "one process": ONE_PROCESS_OF}
"""Each change, in the order in which they stand, with the relation to the strategy that it is compared with."""

_SAME = ["regime", "workers", "global_batch", "round"]
_SECOND = ["regime", "change", "workers", "strategy"]


def table(launch_table: pd.DataFrame, plan: pd.DataFrame | None) -> pd.DataFrame:
    """One row for each change of a strategy with launches of as many rows in a step with and without it.

    Options of its own are compared with all of them at their default on the same hosts, a library's loop and one
    process with the strategy that its relation names, under the same label.
    """
    trained = launch_table.assign(round=rounds(launch_table, plan))
    trained = trained[trained["exchange"] & (trained["round"] >= 0)]
    changed = [trained.assign(change=each, first=_first(trained, each)) for each in _CHANGES]
    default = trained[[*_SAME, "strategy", "bare_strategy", "seconds"]]
    default = default.rename(columns={"strategy": "first", "bare_strategy": "first_bare", "seconds": "first_seconds"})
    pairs = pd.concat(changed).merge(default, on=["first", *_SAME])
    by_round = pairs.set_index([*_SECOND, "round"]).rename_axis([*CONDITION, "series", "round"])
    times = {"first_seconds": by_round["first_seconds"], "second_seconds": by_round["seconds"]}
    times["factor"] = times["second_seconds"] / times["first_seconds"]
    medians = answers.in_columns(answers.medians(answers.of_rounds(times)), [*times])
    rows = pairs.drop_duplicates(_SECOND).drop(columns="first_seconds").join(medians, on=_SECOND)
    rows = rows.sort_values(["regime", "workers", "first_bare", "bare_strategy", "label"])
    rows = rows.sort_values("change", key=lambda each: each.map([*_CHANGES].index), kind="stable")
    names = {"strategy": "second", "factor_low": "low", "factor_high": "high", "factor_n": "pairs"}
    return columns.table("factors", rows.rename(columns=names))


def _first(trained: pd.DataFrame, change: str) -> pd.Series:
    """The strategy of each launch without the change; empty where nothing is changed."""
    if relation := _CHANGES[change]:
        named = [relations.get(relation, "") for relations in trained["compared_with"]]
        names = [name and name_of(name, label) for name, label in zip(named, trained["label"], strict=True)]
    else:
        about = zip(trained["bare_strategy"], trained["options"], trained["placement"], strict=True)
        names = [name_of(name, placement) if options else "" for name, options, placement in about]
    return pd.Series(names, trained.index, dtype=object)
