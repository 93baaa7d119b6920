"""What observations tell: medians, who is ahead within rounds, from which x on it pays, and how a series grows.

Each takes the rows of one measure (`table.whole`), and gives a table. A launch counts once, whatever it repeats.
"""

import math
from collections.abc import Iterator, Mapping
from statistics import median

import pandas as pd

from common.observations.table import PLACE
from common.statistics import fit
from common.statistics.fit import Estimate, Fit
from common.statistics.intervals import FEWEST_LAUNCHES, median_interval
from common.statistics.paired import MARGIN, Judgement, judge, judge_all, log_ratios

FASTEST, EQUIVALENT, UNDECIDED, NOT_RANKED = "fastest", "equivalent", "can't tell", "not ranked"
"""What is said of whoever is in front: shown to be faster than all others, shown to be as fast as some of them to
within the margin, neither, or nothing, for too few rounds or nobody beside it."""

_JUDGED = ["n", "ratio", "low", "high", "p", "verdict"]


def medians(observed: pd.DataFrame) -> pd.DataFrame:
    """One row for each measure and part of a series at a place: `n` launches, their `median` and its `low` and `high`.

    The ends of the interval are NaN below six launches; `oversubscribed` is whether any launch was. What a model has
    predicted is its own median, with its own interval, of 0 launches.
    """
    keys = [*PLACE, "series", "measure", "part"]
    rows: list[tuple[object, ...]] = []
    for key, own in observed.groupby(keys, sort=False):
        found, predicted = median_interval(own["value"].tolist()), own[own["low"].notna()]
        ends = [math.nan if end is None else end for end in (found.low, found.high)]
        ends = predicted[["low", "high"]].iloc[0].tolist() if len(predicted) else ends
        rows.append((*key, found.n * (not len(predicted)), found.median, *ends, bool(own["oversubscribed"].any())))
    return pd.DataFrame(rows, columns=[*keys, "n", "median", "low", "high", "oversubscribed"])


def shares(observed: pd.DataFrame) -> pd.DataFrame:
    """One row for each part of a series at a place: its `share`, the mean over launches, so that all add up to 1."""
    parts = observed[observed["part"] != ""]
    keys = [*PLACE, "series", "part"]
    return parts.groupby(keys, sort=False)["value"].mean().rename("share").reset_index()


def beside_base(observed: pd.DataFrame, bases: Mapping[str, str]) -> pd.DataFrame:
    """Judge each series against its base: `ratio` is how many times as fast it is, from pairs of the same round.

    `bases` are by series. `base_median` is what the base takes. The family over which the errors are held down is all
    series with a base at one place. Over the places there is nothing to correct, as long as that a series pays from
    one on is said only where it pays at every larger one: they are tested one after the other, from the largest down,
    and the first that fails ends it (Marcus, Peritz & Gabriel, "On closed testing procedures with special reference to
    ordered analysis of variance", 1976).
    """
    rows: list[tuple[object, ...]] = []
    for place, seconds in _by_round(observed):
        pairs = [(name, base) for name, base in bases.items() if name in seconds and base in seconds]
        logs = {name: [*log_ratios(seconds[base], seconds[name]).values()] for name, base in pairs}
        family = {name: own for name, own in logs.items() if own}
        for name, judgement in zip(family, judge([*family.values()]), strict=True):
            rows.append((*place, name, median(seconds[bases[name]].values()), *_judged(judgement)))
    return pd.DataFrame(rows, columns=[*PLACE, "series", "base_median", *_JUDGED])


def everyone(observed: pd.DataFrame, margin: float = MARGIN) -> pd.DataFrame:
    """Judge every two series at the same place: `ratio` is how many times as long the `second` takes as the `first`.

    The first one is faster by the mean over the pairs. The family is all series at that place but those with more
    threads than cores; the plan decided who they are. Pairs that share no round are left out.
    """
    rows: list[tuple[object, ...]] = []
    has_cores = ~observed.groupby([*PLACE, "series"])["oversubscribed"].transform("any").astype(bool)
    for place, seconds in _by_round(observed[has_cores]):
        rates = {name: {each: 1 / value for each, value in own.items()} for name, own in seconds.items()}
        rows += [(*place, each.first, each.second, *_judged(each.judgement)) for each in judge_all(rates, margin)]
    return pd.DataFrame(rows, columns=[*PLACE, "first", "second", *_JUDGED])


def leaders(cells: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Who is in front at each place, in the order of `cells`, with the verdict, its `rivals` and `n`.

    `cells` are medians, `pairs` are those of `everyone`. In front is who has won most pairs, and of several the one
    with the shortest median; series with more threads than cores are only where every series has. `rivals` are those
    that it is equivalent to or can't be told from; `n` are the fewest rounds that it shares with any other, 0 for none.
    """
    rows: list[tuple[object, ...]] = []
    by_place = dict(iter(pairs.groupby(PLACE, sort=False)))
    for place, own in cells.groupby(PLACE, sort=False):
        here = by_place.get(place, pairs.iloc[:0])
        wins = here[here["verdict"] == "faster"]["first"].value_counts()
        can_lead = own if own["oversubscribed"].all() else own[~own["oversubscribed"]]
        ordered = can_lead.assign(wins=-can_lead["series"].map(wins).fillna(0)).sort_values(["wins", "median"])
        name = ordered["series"].iloc[0]
        ahead, behind = here[here["first"] == name], here[here["second"] == name]
        counts = [*ahead["n"], *behind["n"]]
        n = min(counts, default=0)
        # One that beats the leader keeps it from being the fastest, as does one that can't be told from it.
        undecided = [*ahead[ahead["verdict"] == "can't tell"]["second"], *behind[behind["verdict"] != "alike"]["first"]]
        alike = [*ahead[ahead["verdict"] == "alike"]["second"], *behind[behind["verdict"] == "alike"]["first"]]
        if n < FEWEST_LAUNCHES:
            verdict, rivals = NOT_RANKED, list[str]()
        elif undecided:
            verdict, rivals = UNDECIDED, undecided
        else:
            verdict, rivals = (EQUIVALENT if alike else FASTEST), alike
        rows.append((*place, name, verdict, sorted(rivals), n))
    return pd.DataFrame(rows, columns=[*PLACE, "series", "verdict", "rivals", "n"])


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
    """Each place with the values of its series by round."""
    for place, here in observed.groupby(PLACE, sort=False):
        groups = here.groupby("series", sort=False)
        yield place, {str(name): dict(zip(own["round"], own["value"], strict=True)) for name, own in groups}


def _judged(judgement: Judgement) -> tuple[object, ...]:
    return tuple(getattr(judgement, name) for name in _JUDGED)
