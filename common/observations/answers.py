"""What observations tell: medians, who is ahead within rounds, from which x on it pays, and how a series grows.

Each takes the rows of one measure (`table.whole`), and gives a table. A launch counts once, whatever it repeats.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from statistics import median

import numpy as np
import pandas as pd
from pandas.api.typing import SeriesGroupBy

from common.observations.table import CONDITION
from common.statistics import fit
from common.statistics.fit import Estimate, Fit
from common.statistics.intervals import FEWEST_LAUNCHES, median_interval
from common.statistics.paired import MARGIN, Judgement, judge, log_ratios

FASTEST, EQUIVALENT, UNDECIDED, NOT_RANKED = "fastest", "equivalent", "can't tell", "not ranked"
"""What is said of whoever is in front: shown to be faster than all others, shown to be as fast as some of them to
within the margin, neither, or nothing, for too few rounds or nobody beside it."""

SLOWER = "slower"
"""What is said of one that is shown to be slower than whoever is in front."""

NO_SHARED_ROUND, TOO_FEW_ROUNDS = "no shared round", "too few rounds"
"""What `sides` says where nothing was measured, and where six rounds weren't."""

_JUDGED = ["n", "ratio", "low", "high", "p", "verdict"]


def medians(observed: pd.DataFrame) -> pd.DataFrame:
    """One row for each measure and part of a series in a condition: `n` launches, `median`, and its `low` and `high`.

    The ends of the interval are NaN below six launches; `oversubscribed` is whether any launch was. What a model has
    predicted is its own median, with its own interval, of 0 launches.
    """
    keys = [*CONDITION, "series", "measure", "part"]
    parts = observed.groupby(keys, sort=False)
    table, predicted = intervals(parts["value"]), parts[["low", "high"]].first()
    table["n"] = table["n"].where(predicted["low"].isna(), 0)
    table[["low", "high"]] = predicted.fillna(table[["low", "high"]])
    return table.assign(oversubscribed=parts["oversubscribed"].any()).reset_index()


def intervals(values: SeriesGroupBy) -> pd.DataFrame:
    """One row for each group of values: `n`, `median`, and its `low` and `high`, NaN below six values."""
    found = values.agg(list).map(median_interval)
    rows = [(each.n, each.median, each.low, each.high) for each in found]
    types = {"n": int, "median": float, "low": float, "high": float}
    return pd.DataFrame(rows, found.index, [*types]).astype(types)


def of_rounds(values: Mapping[str, pd.Series]) -> pd.DataFrame:
    """Turn values that rounds tell, by measure, into observations, such as differences of two launches of a round.

    Each has the index condition, series and round. NaN is left out.
    """
    table = pd.DataFrame(values)
    rows = table.melt(var_name="measure", ignore_index=False).dropna(subset=["value"]).reset_index()
    return rows.assign(launch="", low=math.nan, high=math.nan, part="", oversubscribed=False)


def in_columns(rows: pd.DataFrame, measures: Sequence[str]) -> pd.DataFrame:
    """Set the rows of `medians` on different measures beside each other: one row for each series in a condition.

    The columns of a measure such as `ratio` are `ratio`, `ratio_low`, `ratio_high` and `ratio_n`. Without a median its
    n is 0, and the others are NaN.
    """
    endings = {"median": "", "low": "_low", "high": "_high", "n": "_n"}
    wide = rows.pivot(index=[*CONDITION, "series"], columns="measure", values=[*endings])
    wide = wide.reindex(columns=[(each, measure) for measure in measures for each in endings])
    wide.columns = [f"{measure}{endings[each]}" for each, measure in wide.columns]
    counts = [f"{measure}_n" for measure in measures]
    return wide.astype(float).fillna(dict.fromkeys(counts, 0)).astype(dict.fromkeys(counts, int))


def sides(table: pd.DataFrame, measure: str, middle: float, below: str, above: str) -> np.ndarray:
    """What the intervals of a measure say: that they lie wholly `below` the middle or `above` it, or can't tell.

    `table` has the columns of `in_columns`.
    """
    low, high, n = (table[f"{measure}_{each}"] for each in ("low", "high", "n"))
    verdicts = {NO_SHARED_ROUND: n == 0, TOO_FEW_ROUNDS: low.isna(), above: low > middle, below: high < middle}
    return np.select([*verdicts.values()], [*verdicts], UNDECIDED)


def shares(observed: pd.DataFrame) -> pd.DataFrame:
    """One row for each part of a series in a condition: its `share`, the mean over launches, so all add up to 1."""
    parts = observed[observed["part"] != ""]
    keys = [*CONDITION, "series", "part"]
    return parts.groupby(keys, sort=False)["value"].mean().rename("share").reset_index()


def beside_base(observed: pd.DataFrame, bases: Mapping[str, str]) -> pd.DataFrame:
    """Judge each series against its base: `ratio` is how many times as fast it is, from pairs of the same round.

    `bases` are by series. `base_median` is what the base takes. The family over which the errors are held down is all
    series with a base in one condition. Over x there is nothing to correct, as long as that a series pays from one on
    is said only where it pays at every larger one: they are tested one after the other, from the largest down, and the
    first that fails ends it (Marcus, Peritz & Gabriel, "On closed testing procedures with special reference to ordered
    analysis of variance", 1976).
    """
    rows: list[tuple[object, ...]] = []
    for condition, seconds in _by_round(observed):
        pairs = [(name, base) for name, base in bases.items() if name in seconds and base in seconds]
        logs = {name: [*log_ratios(seconds[base], seconds[name]).values()] for name, base in pairs}
        family = {name: own for name, own in logs.items() if own}
        for name, judgement in zip(family, judge([*family.values()]), strict=True):
            rows.append((*condition, name, median(seconds[bases[name]].values()), *_judged(judgement)))
    return pd.DataFrame(rows, columns=[*CONDITION, "series", "base_median", *_JUDGED])


def everyone(observed: pd.DataFrame, margin: float = MARGIN) -> pd.DataFrame:
    """Judge every two series in one condition: `ratio` is how many times as long the `second` takes as the `first`.

    The first one is faster by the mean over the pairs. The family is all series in that condition but those with more
    threads than cores; the plan decided who they are. Pairs that share no round are left out. `logs` are the log ratios
    in the `rounds` of a pair. From `fewest` to `most` rounds would narrow its interval to the margin; infinite: more
    than are looked at.
    """
    rows: list[tuple[object, ...]] = []
    has_cores = ~observed.groupby([*CONDITION, "series"])["oversubscribed"].transform("any").astype(bool)
    for condition, seconds in _by_round(observed[has_cores]):
        rates = {name: {each: 1 / value for each, value in own.items()} for name, own in seconds.items()}
        pairs = []
        for first, second in combinations(rates, 2):
            logs = log_ratios(rates[first], rates[second])
            if sum(logs.values()) < 0:
                first, second, logs = second, first, {each: -log for each, log in logs.items()}
            if logs:
                pairs.append((first, second, logs))
        judged = judge([[*logs.values()] for *_, logs in pairs], margin)
        for (first, second, logs), judgement in zip(pairs, judged, strict=True):
            medians, needed = [median(seconds[name].values()) for name in (first, second)], judgement.needed
            counts = (needed.fewest or math.inf, needed.most or math.inf) if needed else (math.nan, math.nan)
            in_rounds = [*logs], [*logs.values()]
            rows.append((*condition, first, second, *medians, *_judged(judgement), *counts, *in_rounds))
    medians = ["first_median", "second_median"]
    columns = [*CONDITION, "first", "second", *medians, *_JUDGED, "fewest", "most", "rounds", "logs"]
    return pd.DataFrame(rows, columns=columns)


def in_front(pairs: pd.DataFrame) -> str:
    """The series of pairs in one condition with the shortest median, of those that none beats if there are any."""
    beaten = {*pairs[pairs["verdict"] == "faster"]["second"]}
    medians = dict(zip(pairs["first"], pairs["first_median"], strict=True))
    medians |= dict(zip(pairs["second"], pairs["second_median"], strict=True))
    contenders = [name for name in medians if name not in beaten] or [*medians]
    return min(contenders, key=lambda name: (medians[name], name))


def beside(pairs: pd.DataFrame, leader: str) -> pd.DataFrame:
    """Every other series of pairs in one condition beside the leader: `ratio` is how many times as long it takes.

    The verdict is `slower`, `equivalent` or `can't tell`, as it is of one that beats the leader in their rounds.
    """
    verdicts = {"alike": EQUIVALENT, "too few rounds": NOT_RANKED}
    ahead, behind = pairs[pairs["first"] == leader], pairs[pairs["second"] == leader]
    ahead = ahead.assign(series=ahead["second"]).replace({"verdict": verdicts | {"faster": SLOWER}})
    ends = {"ratio": 1 / behind["ratio"], "low": 1 / behind["high"], "high": 1 / behind["low"]}
    behind = behind.assign(series=behind["first"], **ends).replace({"verdict": verdicts | {"faster": UNDECIDED}})
    return pd.concat([ahead, behind])[["series", "n", "ratio", "low", "high", "verdict"]]


def leaders(cells: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Who is in front in each condition, in the order of `cells`, with the verdict, its `rivals` and `n`.

    `cells` are medians, `pairs` are those of `everyone`, which tell who is `in_front`. Without any it is the series
    with the shortest median; series with more threads than cores are only where every series has. `rivals` are those
    that it is equivalent to or can't be told from; `n` are the fewest rounds that it shares with any other, 0 for none.
    """
    rows: list[tuple[object, ...]] = []
    by_condition = dict(iter(pairs.groupby(CONDITION, sort=False)))
    for condition, own in cells.groupby(CONDITION, sort=False):
        here = by_condition.get(condition, pairs.iloc[:0])
        can_lead = own if own["oversubscribed"].all() else own[~own["oversubscribed"]]
        name = in_front(here) if len(here) else can_lead.sort_values("median")["series"].iloc[0]
        others = beside(here, name)
        n = min(others["n"], default=0)
        undecided, alike = (sorted(others[others["verdict"] == each]["series"]) for each in (UNDECIDED, EQUIVALENT))
        if n < FEWEST_LAUNCHES:
            verdict, rivals = NOT_RANKED, list[str]()
        elif undecided:
            verdict, rivals = UNDECIDED, undecided
        else:
            verdict, rivals = (EQUIVALENT if alike else FASTEST), alike
        rows.append((*condition, name, verdict, rivals, n))
    return pd.DataFrame(rows, columns=[*CONDITION, "series", "verdict", "rivals", "n"])


def pays_from(judged: pd.DataFrame) -> float | None:
    """The smallest x of one series from which on the whole interval of its ratio is above 1; None: none."""
    smallest = None
    for row in judged.sort_values("x", ascending=False).to_dict("records"):
        # Without an interval its ends are NaN, above nothing.
        if not row["low"] > 1:
            break
        smallest = row["x"]
    return smallest


def lines(observed: pd.DataFrame) -> dict[tuple[str, str, str], Fit]:
    """By subject, world and series the lines through its sizes: latency and bandwidth, as `fit.fit` has them.

    There are none with fewer than three sizes, and none where no launch measured all of them.
    """
    fits = {key: fit.fit([*map(int, table.index)], table.to_numpy()) for key, table in _measured_all(observed)}
    return {key: found for key, found in fits.items() if found}


def exponents(observed: pd.DataFrame) -> dict[tuple[str, str, str], Estimate]:
    """By subject, world and series p, where it takes about x^p; nothing for one x, and where no launch has all."""
    slopes = {key: fit.exponent([*table.index], table.to_numpy()) for key, table in _measured_all(observed)}
    return {key: found for key, found in slopes.items() if found}


def _measured_all(observed: pd.DataFrame) -> Iterator[tuple[tuple[str, str, str], pd.DataFrame]]:
    """Each series with its values by x and round, in the rounds whose launches measured every x that any did."""
    for key, own in observed.groupby(["subject", "world", "series"], sort=False):
        table = own.pivot_table(index="x", columns="round", values="value").sort_index().dropna(axis=1)
        if table.size:
            yield (str(key[0]), str(key[1]), str(key[2])), table


def _by_round(observed: pd.DataFrame) -> Iterator[tuple[tuple[object, ...], dict[str, dict[int, float]]]]:
    """Each condition with the values of its series by round, whose launches count by their median."""
    for condition, here in observed.groupby([*CONDITION], sort=False):
        values = here.groupby(["series", "round"], sort=False)["value"].median()
        yield condition, {name: own.droplevel(0).to_dict() for name, own in values.groupby(level=0, sort=False)}


def _judged(judgement: Judgement) -> tuple[object, ...]:
    return tuple(getattr(judgement, name) for name in _JUDGED)
