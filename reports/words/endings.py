"""How every launch ended, and what is missing for which reason."""

import math
from collections.abc import Mapping

import pandas as pd

from reports import blocks
from reports.blocks import listed

_MOST_NAMED = 4
"""Of more launches a sentence names some."""


def sentence(table: pd.DataFrame) -> str:
    """How many launches ended how, in one sentence; planned ones that have no record count as not run."""
    counts = {name: int((table["ending"] == name).sum()) for name in ("ok", "unsupported", "failed", "not run")}
    planned = int(table["planned"].sum())
    head = f"{planned} launches were planned" if planned else f"{len(table)} launches were recorded, without a plan"
    extra = len(table) - planned if planned else 0
    beside = f" ({extra} more were recorded beside the plan)" if extra else ""
    return (
        f"{head}{beside}: {counts['ok']} ok, {counts['unsupported']} unsupported, {counts['failed']} failed, "
        f"{counts['not run']} not run."
    )


def left_out(table: pd.DataFrame) -> list[str]:
    """A sentence for each reason why strategies have no launch at all that ended ok; none where every strategy has one.

    A strategy whose launches ended for several reasons stands with the first of them.
    """
    reasons: dict[str, list[str]] = {}
    for strategy, group in table.groupby("bare_strategy"):
        ended = group[group["ending"].isin(["unsupported", "failed"])]
        if not (group["ending"] == "ok").any() and len(ended):
            reasons.setdefault(str(ended["reason"].iloc[0]).rstrip("."), []).append(str(strategy))
    return [f"Not compared: {listed(names)}. {reason}." for reason, names in reasons.items()]


def out_of_time(minutes: Mapping[str, float]) -> list[str]:
    """A sentence that names the strategies for which the time didn't suffice, with the `minutes` that would do."""
    if not minutes:
        return []
    named = [f"{name} (--minutes {math.ceil(each)} would do)" for name, each in minutes.items()]
    return [f"The time didn't suffice for {listed(named)}."]


def reasons(table: pd.DataFrame) -> list[str]:
    """A sentence for each reason why launches failed or are unsupported, with their logs."""
    wrong, said = table[table["ending"].isin(["unsupported", "failed"])], []
    for (ending, reason), group in wrong.groupby(["ending", "reason"], sort=True):
        logs = [*dict.fromkeys(filter(None, group["log"]))]
        where = f" (log: {blocks.some(logs, _MOST_NAMED)})" if logs else ""
        names = blocks.some([*group["launch"]], _MOST_NAMED)
        said.append(f"{blocks.capitalized(ending)}: {names}. {reason or 'No reason was recorded.'}{where}")
    return said
