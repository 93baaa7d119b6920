"""Pairs of launches of the same round, tested as one family for each number of workers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from common.observations import answers
from common.observations.launches import CONFIGURATION, NAMES, in_rounds
from common.observations.table import whole
from common.records.certificate import DEVIATES, REASONS
from common.statistics.intervals import FEWEST_LAUNCHES
from reports.tables import columns

OVERSUBSCRIBED = "for more threads than cores"
TOO_FEW_ROUNDS = "for too few rounds"

_PAIR = {"first": "strategy", "second": "other"}


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
    contenders["reason"] = contenders["reason"].mask(contenders["n"] < FEWEST_LAUNCHES, TOO_FEW_ROUNDS)
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
