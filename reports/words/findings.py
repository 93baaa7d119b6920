"""What the numbers say, in sentences, of how launches ended, of their maths and of oversubscribed worlds."""

import math
from collections.abc import Mapping

import pandas as pd

from reports import blocks
from reports.blocks import listed
from reports.tables import summaries

_MOST_NAMED = 5
"""Strategies in a sentence."""


def endings(table: pd.DataFrame) -> str:
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


def certificate(summary: pd.DataFrame) -> str:
    """How many settings follow the oracle and which don't, and how far other maths deviate from it."""
    if summary.empty:
        return "No launch could be compared with the oracle."
    verdicts = summary["verdict"]
    counts = verdicts.value_counts()
    follows, deviates = int(verdicts.str.startswith("follows").sum()), int(counts.get("deviates", 0))
    compared = follows + deviates
    text = f"{follows} of {compared} compared settings follow the float64 oracle."
    if partly := int(counts.get("follows up to a kink", 0)):
        them = "1 of them follows" if partly == 1 else f"{partly} of them follow"
        text += f" {them} it up to a kink, from which float32 may leave it."
    if deviates:
        rows = summary[summary["verdict"] == "deviates"].to_dict("records")
        names = [f"{row['strategy']} at {row['workers']} ({row['preset']})" for row in rows]
        text += f" Not the same maths: {blocks.some([*dict.fromkeys(names)])}."
    text += _other_maths(summary[summary["verdict"] == "other maths"])
    several = "asynchronous with several workers, which has no oracle to follow"
    for verdict, phrase in (("asynchronous", several), ("not compared", "not compared")):
        if counts.get(verdict):
            text += f" {int(counts[verdict])} more {'is' if counts[verdict] == 1 else 'are'} {phrase}."
    return text


def without_exchange(summary: pd.DataFrame) -> str:
    """Whether launches without exchange computed what their declarations say; empty where there are none."""
    if summary.empty:
        return ""
    verdicts = summary["verdict"]
    follows, deviates = int(verdicts.str.startswith("follows").sum()), int((verdicts == "deviates").sum())
    text = f"Without exchange {follows} of {follows + deviates} compared settings follow their own oracles."
    if deviates:
        rows = summary[verdicts == "deviates"].to_dict("records")
        names = [f"{row['strategy']} at {row['workers']} ({row['preset']})" for row in rows]
        text += f" Not taken as T_comp, since it computes something else: {blocks.some([*dict.fromkeys(names)])}."
    others = len(verdicts) - follows - deviates
    if others:
        text += f" {others} more {'is' if others == 1 else 'are'} held to no oracle."
    return text


def oversubscription(launches: pd.DataFrame) -> str:
    """A sentence that names the worker counts with more threads than cores; empty where there are none.

    A strategy with processes beside its workers may have too many threads where others don't: it is named by itself.
    """
    if launches.empty or not launches["oversubscribed"].any():
        return ""
    over = launches[launches["oversubscribed"]]
    everywhere = summaries.oversubscribed_worlds(launches)
    places = [f"{listed([str(count) for count in everywhere])} workers"] if everywhere else []
    alone = over[~over["workers"].isin(everywhere)]
    places += [_of_strategy(str(name), group) for name, group in alone.groupby("strategy")]
    cores = listed([str(count) for count in sorted(over["cores"].dropna().unique())])
    return (
        f"With {blocks.some(places, _MOST_NAMED)} there were more threads than the machine's {cores} cores: such "
        "numbers are marked † and show that it works, not how it scales."
    )


def _of_strategy(name: str, launches: pd.DataFrame) -> str:
    counts = listed([str(count) for count in sorted(launches["workers"].unique())])
    workers = "worker" if counts == "1" else "workers"
    beside = " (other processes beside them)" if launches["processes_beside"].any() else ""
    return f"{counts} {workers} of {name}{beside}"


def _other_maths(rows: pd.DataFrame) -> str:
    """A sentence on the settings that round or approximate on purpose; empty where there are none."""
    if rows.empty:
        return ""
    options = sorted({option for options in rows["other_maths"] for option in options.split(", ")})
    largest = blocks.tiny(rows["loss"].max())
    if len(rows) == 1:
        return f" 1 setting computes other maths on purpose ({', '.join(options)}); its largest deviation is {largest}."
    return (
        f" {len(rows)} settings compute other maths on purpose ({', '.join(options)}); their largest deviation is "
        f"{largest}."
    )
