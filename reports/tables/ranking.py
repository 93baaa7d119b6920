"""Pairs of launches of the same round: tested as families, and what one change makes of the time of a step."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from common.declarations.strategy import CONVENIENCE_OF, ONE_PROCESS_OF, name_of
from common.observations import answers
from common.observations.launches import CONFIGURATION, NAMES, in_rounds, rounds
from common.observations.table import CONDITION, whole
from common.records.certificate import DEVIATES, REASONS
from common.statistics.intervals import FEWEST_LAUNCHES
from reports.tables import columns

OVERSUBSCRIBED = "for more threads than cores"
TOO_FEW_ROUNDS = "for too few rounds"

_PAIR = {"first": "strategy", "second": "other"}

_CHANGES = {"options": "", "library's loop": CONVENIENCE_OF, "one process": ONE_PROCESS_OF}
"""Each change, in the order in which they stand, with the relation to the strategy that it is compared with."""

_SAME = ["regime", "workers", "global_batch", "round"]
_SECOND = ["regime", "change", "workers", "strategy"]


@dataclass(frozen=True)
class Ranking:
    """What the tests of all families say."""

    comparisons: pd.DataFrame
    """One row for each two strategies of a regime and number of workers on the same hosts that share rounds. Families
    come from few workers and hosts, and slow links, to many and fast ones."""
    unranked: pd.DataFrame
    """`regime`, `workers`, `hosts`, `placement`, `strategy` and `reason` of whoever isn't ranked; where rounds are too
    few, `n` is the most that it shares with any other, else 0."""


def rank(
    launch_table: pd.DataFrame, observed: pd.DataFrame, margin: float, certificate: Mapping[tuple[str, int], str]
) -> Ranking:
    """Judge every family in the launches of `summaries.launches`, which are also `observed`, that the plan names.

    A family is all pairs of strategies, by name with label, of a regime, number of workers and placement, so on the
    same hosts over the same link, but those with more threads than cores, and those that the certificate gives a
    reason for: `common.records.certificate.reasons_not_ranked`, which has one, or none, for every strategy that was
    launched.
    """
    trained = in_rounds(whole(observed, "seconds_per_row"))
    places = launch_table.drop_duplicates("placement")[["placement", "hosts", "bandwidth_bits_per_second"]]
    places = places.assign(speed=places["bandwidth_bits_per_second"].fillna(math.inf))
    contenders = answers.medians(trained).rename(columns=NAMES).merge(places, on="placement")
    keys = zip(contenders["strategy"], contenders["workers"], strict=True)
    contenders["reason"] = pd.Series([certificate[key] for key in keys], dtype=object)
    is_refused = contenders["oversubscribed"] & (contenders["reason"] != REASONS[DEVIATES])
    contenders["reason"] = contenders["reason"].mask(is_refused, OVERSUBSCRIBED)
    ranked = contenders[contenders["reason"] == ""][CONFIGURATION]
    family = trained.merge(ranked, left_on=[*NAMES], right_on=CONFIGURATION)
    pairs = answers.everyone(family, margin).rename(columns=NAMES | _PAIR).merge(places, on="placement")
    pairs = pairs.assign(rate=1 / pairs["first_median"], other_rate=1 / pairs["second_median"])
    # Who shares fewer than six rounds with any other strategy of the family.
    most = pd.concat([pairs, pairs.assign(strategy=pairs["other"])]).groupby(CONFIGURATION)["n"].max()
    contenders = contenders.drop(columns="n").join(most, on=CONFIGURATION)
    # Beside strategies that share rounds, one that shares none has 0.
    sharing = contenders.groupby(["regime", "workers", "placement"])["n"].transform("count")
    contenders["n"] = contenders["n"].fillna(0).where(sharing > 0)
    is_rare = (contenders["n"] < FEWEST_LAUNCHES) & (contenders["reason"] == "")
    contenders["reason"] = contenders["reason"].mask(is_rare, TOO_FEW_ROUNDS)
    unranked = contenders[contenders["reason"] != ""].fillna({"n": 0}).astype({"n": int})
    order = ["regime", "workers", "hosts", "speed", "placement"]
    pairs = pairs.sort_values([*order, "first_median", "strategy", "second_median", "other"])
    names = ["regime", "workers", "hosts", "placement", "strategy", "reason", "n"]
    return Ranking(columns.table("comparisons", pairs), unranked.sort_values(order)[names])


def of_regime(table: pd.DataFrame, regime: str) -> pd.DataFrame:
    return table[table["regime"] == regime]


def tested(comparisons: pd.DataFrame) -> pd.DataFrame:
    return comparisons[comparisons["n"] >= FEWEST_LAUNCHES]


def main_family(comparisons: pd.DataFrame) -> pd.DataFrame:
    """Of one regime's tested comparisons those with the most workers and hosts and the fastest link."""
    judged = tested(comparisons)
    last = judged[-1:][["workers", "placement"]]
    return judged.merge(last, on=["workers", "placement"])


def as_pairs(family: pd.DataFrame) -> pd.DataFrame:
    """The comparisons of a family by the names that `answers` has for pairs."""
    medians = {"first_median": 1 / family["rate"], "second_median": 1 / family["other_rate"]}
    return family.rename(columns={name: each for each, name in _PAIR.items()}).assign(**medians)


def factors(launch_table: pd.DataFrame, plan: pd.DataFrame | None) -> pd.DataFrame:
    """One row for each change of a strategy with launches of as many rows in a step with and without it.

    Options of its own are compared with all of them at their default on the same hosts, a library's loop and one
    process with the strategy that its relation names, under the same label.
    """
    trained = in_rounds(launch_table.assign(round=rounds(launch_table, plan)))
    trained = trained[trained["exchange"]]
    changed = [trained.assign(change=each, first=_first(trained, each)) for each in _CHANGES]
    default = trained[[*_SAME, "strategy", "bare_strategy", "seconds"]]
    default = default.rename(columns={"strategy": "first", "bare_strategy": "first_bare", "seconds": "first_seconds"})
    pairs = pd.concat(changed).merge(default, on=["first", *_SAME])
    by_round = pairs.set_index([*_SECOND, "round"]).rename_axis([*CONDITION, "series", "round"])
    times = {"first_seconds": by_round["first_seconds"], "second_seconds": by_round["seconds"]}
    times["factor"] = times["second_seconds"] / times["first_seconds"]
    medians = answers.in_columns(answers.medians(answers.of_rounds(times)), [*times])
    rows = pairs.drop_duplicates(_SECOND).drop(columns="first_seconds").join(medians, on=_SECOND)
    rows = rows.assign(place=rows["change"].map([*_CHANGES].index))
    rows = rows.sort_values(["place", "regime", "workers", "first_bare", "bare_strategy", "label"])
    names = {"strategy": "second", "factor_low": "low", "factor_high": "high", "factor_n": "pairs"}
    return columns.table("factors", rows.rename(columns=names))


def _first(trained: pd.DataFrame, change: str) -> pd.Series:
    """The strategy of each launch without the change; empty where nothing is changed."""
    if relation := _CHANGES[change]:
        named = zip(trained["compared_with"], trained["label"], strict=True)
        names = [name_of(others[relation], label) if relation in others else "" for others, label in named]
    else:
        about = zip(trained["bare_strategy"], trained["options"], trained["placement"], strict=True)
        names = [name_of(name, placement) if options else "" for name, options, placement in about]
    return pd.Series(names, trained.index, dtype=object)
