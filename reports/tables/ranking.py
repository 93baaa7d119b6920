"""Pairs of launches of the same round, tested as one family for each number of workers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from common.records.certificate import DEVIATES, REASONS
from common.statistics.intervals import FEWEST_LAUNCHES
from common.statistics.paired import Judgement, judge_all
from reports.tables import columns, pairs

OVERSUBSCRIBED = "for more threads than cores"
TOO_FEW_ROUNDS = "for too few rounds"


@dataclass(frozen=True)
class Ranking:
    """What the tests of all families say."""

    comparisons: pd.DataFrame
    """One row for each two strategies of a regime and number of workers on the same hosts that share rounds. Families
    come from few workers and hosts, and slow links, to many and fast ones."""
    unranked: pd.DataFrame
    """`regime`, `workers`, `hosts`, `placement`, `strategy` and `reason` of whoever isn't ranked; where rounds are too
    few, `n` is the most that it shares with any other, else 0."""
    margin: float
    """By how much two strategies may differ and be called alike."""


def rank(
    launch_table: pd.DataFrame, plan: pd.DataFrame | None, margin: float, certificate: Mapping[tuple[str, int], str]
) -> Ranking:
    """Judge every family in the rows of `summaries.launches`, by the rounds of `pairs.with_rounds`.

    A family is all pairs of strategies, by name with label, of a regime, number of workers and placement, so on the
    same hosts over the same link, but those with more threads than cores, and those that the certificate gives a
    reason for: `common.records.certificate.reasons_not_ranked`, which has one, or none, for every strategy that was
    launched.
    """
    trained = pairs.with_rounds(launch_table[launch_table["exchange"]], plan)
    comparisons, unranked = [], []
    links = trained.assign(speed=trained["bandwidth_bits_per_second"].fillna(math.inf))
    families = links.groupby(["regime", "workers", "hosts", "speed", "placement"])
    for (regime, workers, hosts, _, placement), group in families:
        place = {"regime": regime, "workers": int(workers), "hosts": int(hosts), "placement": placement}
        reasons = {name: _reason(own, certificate) for name, own in group.groupby("strategy")}
        family = _family(group[group["strategy"].map(reasons) == ""], margin)
        comparisons += [place | row for row in family]
        refused = [{"strategy": name, "reason": reason, "n": 0} for name, reason in reasons.items() if reason]
        unranked += [place | row for row in [*refused, *_with_few_rounds(family)]]
    names = ["regime", "workers", "hosts", "placement", "strategy", "reason", "n"]
    return Ranking(columns.table("comparisons", comparisons), pd.DataFrame(unranked, columns=names), margin)


def _reason(launch_table: pd.DataFrame, certificate: Mapping[tuple[str, int], str]) -> str:
    """Why the strategy with these launches isn't ranked; empty where it is."""
    first = launch_table.iloc[0]
    reason = certificate[first["strategy"], first["workers"]]
    if reason == REASONS[DEVIATES]:
        return reason
    return OVERSUBSCRIBED if launch_table["oversubscribed"].any() else reason


def _family(launch_table: pd.DataFrame, margin: float) -> list[dict[str, object]]:
    """The comparisons between the strategies of these launches, the fastest strategies first."""
    by_strategy = launch_table.groupby("strategy")
    rates = {name: own["global_batch"].iloc[0] / own["seconds"].median() for name, own in by_strategy}
    by_round = {name: own.groupby("round")["samples_per_second"].mean().to_dict() for name, own in by_strategy}
    rows = [
        {"strategy": each.first, "rate": rates[each.first], "other": each.second, "other_rate": rates[each.second]}
        | {"rounds": [*each.logs], "logs": [*each.logs.values()]}
        | _in_columns(each.judgement)
        for each in judge_all(by_round, margin)
    ]
    return sorted(rows, key=lambda row: (-row["rate"], row["strategy"], -row["other_rate"], row["other"]))


def _in_columns(judgement: Judgement) -> dict[str, object]:
    needed = judgement.needed
    counts = (math.nan, math.nan) if needed is None else (needed.fewest or math.inf, needed.most or math.inf)
    known = {name: getattr(judgement, name) for name in ("n", "ratio", "low", "high", "p", "verdict")}
    return known | dict(zip(("fewest", "most"), counts, strict=True))


def _with_few_rounds(family: list[dict[str, object]]) -> list[dict[str, object]]:
    """Who shares fewer than six rounds with any other strategy of the family."""
    most: dict[str, int] = {}
    for row in family:
        for name in (row["strategy"], row["other"]):
            most[name] = max(row["n"], most.get(name, 0))
    return [{"strategy": name, "reason": TOO_FEW_ROUNDS, "n": n} for name, n in most.items() if n < FEWEST_LAUNCHES]


def of_regime(table: pd.DataFrame, regime: str) -> pd.DataFrame:
    return table[table["regime"] == regime]


def families_of(comparisons: pd.DataFrame) -> list[pd.DataFrame]:
    """Those of one regime, with the largest number of workers, most hosts and the fastest link first."""
    return [family for _, family in comparisons.groupby(["workers", "placement"], sort=False)][::-1]


def tested(comparisons: pd.DataFrame) -> pd.DataFrame:
    return comparisons[comparisons["n"] >= FEWEST_LAUNCHES]


def main_family(comparisons: pd.DataFrame) -> pd.DataFrame:
    """Of one regime's comparisons those that were tested, of the first of its families that has any."""
    judged = tested(comparisons)
    return families_of(judged)[0] if len(judged) else judged


def rates_by_strategy(family: pd.DataFrame) -> dict[str, float]:
    """Samples per second of each strategy, the fastest first."""
    found = dict(zip(family["strategy"], family["rate"], strict=True))
    found |= dict(zip(family["other"], family["other_rate"], strict=True))
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def open_pairs(family: pd.DataFrame, strategy: str = "") -> pd.DataFrame:
    """Pairs of a family, or of one of its strategies, that can't be told apart yet and that more rounds may decide."""
    unknown = family[(family["verdict"] == "can't tell") & (family["most"] > family["n"])]
    return unknown[(unknown["strategy"] == strategy) | (unknown["other"] == strategy)] if strategy else unknown


def fastest_of(family: pd.DataFrame) -> str:
    """The fastest strategy of those that none was shown to be faster than."""
    beaten = set(family.loc[family["verdict"] == "faster", "other"])
    names = [*rates_by_strategy(family)]
    return next((name for name in names if name not in beaten), names[0])
