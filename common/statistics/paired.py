"""Which of two strategies is faster, from pairs of launches of the same round: a family of paired t tests.

Rounds are blocks: a machine that slows down slows both launches of a pair, so their log ratio has less spread than
either time. A family is all comparisons whose verdicts stand side by side: the risk of any false "faster" or "slower"
is that of the whole family, and so is the risk of any false "alike". It has to be known before the launches who is
compared with whom: nothing here allows for comparisons that were chosen for what they showed.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from common.statistics.intervals import FEWEST_LAUNCHES

FAMILY_ERROR = 0.05
"""The largest probability that a family has any false "different", and, by itself, that it has any false "alike"."""

MARGIN = 0.05
"""By how much two strategies may differ and be called alike, where nobody asks for another margin."""

POWER = 0.8
"""The probability with which a number of rounds is to tell what is there."""

MOST_ROUNDS = 10_000
"""Where an answer would take more rounds than this, it is said that it takes more."""


@dataclass(frozen=True)
class Needed:
    """How many rounds show two equal ones to be within the margin, with a probability of `POWER`.

    From `fewest` to `most`; None: over `MOST_ROUNDS`.
    """

    fewest: int | None
    most: int | None


@dataclass(frozen=True)
class Judgement:
    """What n rounds say of two strategies: `ratio` is how many times the first one's rate the second one has.

    It is the geometric mean over the rounds, and `low` to `high` the family's simultaneous 95 % interval. With fewer
    than six rounds nothing but the ratio is said (NaN, False, None).
    """

    n: int
    ratio: float
    low: float
    high: float
    p: float
    """Of the paired t test, corrected for the family by Holm's procedure."""
    different: bool
    alike: bool
    needed: Needed | None

    @property
    def verdict(self) -> str:
        """`alike`, `faster`, `slower` (the second one), `can't tell`, or `too few rounds`.

        A significant difference below the margin counts as equivalent.
        """
        if self.n < FEWEST_LAUNCHES:
            return "too few rounds"
        if self.alike:
            return "alike"
        if self.different:
            return "faster" if self.ratio > 1 else "slower"
        return "can't tell"


@dataclass(frozen=True)
class Decisions:
    """What the tests of families say, as arrays (..., comparisons): the corrected p, and the interval's half-width."""

    p: np.ndarray
    half_width: np.ndarray
    different: np.ndarray
    alike: np.ndarray


def log_ratios(rates: Mapping[int, float], others: Mapping[int, float]) -> dict[int, float]:
    """The logarithms of rates over the others, both by round, in the rounds that both have, in ascending order."""
    return {each: math.log(rates[each] / others[each]) for each in sorted(rates.keys() & others.keys())}


def judge(family: Sequence[Sequence[float]], margin: float = MARGIN, by_interval: bool = False) -> list[Judgement]:
    """Judge every comparison of a family, each given as the log ratios of its rounds, second rate over first.

    The rounds needed are those for `alike`, or, with `by_interval`, for an interval wholly within the margin.
    Comparisons of fewer than six rounds take no part in the correction: how many a comparison has doesn't depend on
    what they show.
    """
    enough = [logs for logs in family if len(logs) >= FEWEST_LAUNCHES]
    means = np.array([np.mean(logs) for logs in enough])
    deviations, counts = np.array([np.std(logs, ddof=1) for logs in enough]), np.array([len(logs) for logs in enough])
    decisions = decide(means, deviations, counts, margin)
    level = FAMILY_ERROR / max(len(enough), 1) / (2 if by_interval else 1)
    judgements: list[Judgement] = []
    place = 0  # Among those with enough rounds.
    for logs in family:
        if len(logs) < FEWEST_LAUNCHES:
            ratio = float(np.exp(np.mean(logs)))
            judgements.append(Judgement(len(logs), ratio, math.nan, math.nan, math.nan, False, False, None))
            continue
        judgements.append(
            Judgement(
                n=len(logs),
                ratio=float(np.exp(means[place])),
                low=float(np.exp(means[place] - decisions.half_width[place])),
                high=float(np.exp(means[place] + decisions.half_width[place])),
                p=float(decisions.p[place]),
                different=bool(decisions.different[place]),
                alike=bool(decisions.alike[place]),
                needed=rounds_needed(float(deviations[place]), len(logs), level, margin),
            )
        )
        place += 1
    return judgements


def decide(means: np.ndarray, deviations: np.ndarray, counts: np.ndarray, margin: float) -> Decisions:
    """Test families of mean log ratios, with their sample deviations and counts: arrays (..., comparisons).

    Different: the paired t test's p, corrected by Holm ("A simple sequentially rejective multiple test procedure",
    1979), is at most 5 %. Alike: both one-sided t tests (Schuirmann, "A comparison of the two one-sided tests procedure
    and the power approach", 1987), at 5 % over the number of comparisons, find the mean within log(1 + margin) of 0.
    The intervals are Bonferroni's (Dunn, "Multiple comparisons among means", 1961), which hold all at once, and are
    wider than Holm's test: a sure difference may have an interval that just reaches 1. Without any spread, every mean
    but 0 is different, and every one within the margin alike.
    """
    # Takes a third of a second, which whoever only makes a plan doesn't need.
    from scipy.special import stdtr, stdtrit

    comparisons = max(np.shape(means)[-1], 1)
    errors = deviations / np.sqrt(counts)
    with np.errstate(divide="ignore", invalid="ignore"):
        distances = np.where(errors > 0, np.abs(means) / errors, np.where(means == 0, 0.0, np.inf))
        rooms = np.log1p(margin) - np.abs(means)
        inside = np.where(errors > 0, rooms / errors, np.where(rooms > 0, np.inf, -np.inf))
    p = holm(2 * stdtr(counts - 1, -distances))
    alike = stdtr(counts - 1, -inside) <= FAMILY_ERROR / comparisons
    half_width = -stdtrit(counts - 1, FAMILY_ERROR / 2 / comparisons) * deviations / np.sqrt(counts)
    return Decisions(p, half_width, p <= FAMILY_ERROR, alike)


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's corrected p-values of families, (..., comparisons)."""
    order = np.argsort(p, axis=-1)
    factors = np.arange(p.shape[-1], 0, -1)
    stepped = np.maximum.accumulate(np.take_along_axis(p, order, -1) * factors, axis=-1)
    corrected = np.empty_like(stepped)
    np.put_along_axis(corrected, order, np.minimum(stepped, 1.0), -1)
    return corrected


def smallest_difference(spread: float, rounds: int, comparisons: int = 1, power: float = POWER) -> float:
    """The share by which a rate must differ for a family's test to find it with this probability in so many rounds.

    `spread` is the standard deviation of the log ratios. The test statistic has a noncentral t distribution, whose
    noncentrality is the log ratio over its standard error (Lehmann & Romano, Testing Statistical Hypotheses, 2005,
    section 5.2). Holm's first step is taken, which is that of one difference among equals. That the test finds the
    wrong sign is too improbable to count.
    """
    from scipy.special import nctdtrinc, stdtrit

    critical = stdtrit(rounds - 1, 1 - FAMILY_ERROR / 2 / comparisons)
    return float(np.expm1(nctdtrinc(rounds - 1, 1 - power, critical) * spread / np.sqrt(rounds)))


def rounds_needed(deviation: float, n: int, level: float, margin: float) -> Needed:
    """With how many rounds two equal ones would be shown to be within the margin, with a probability of `POWER`.

    They are within it where the one-sided interval of that `level` is, on both sides. The number rests on the spread,
    never on the difference. The spread of n rounds has a 95 % interval itself (chi squared with n - 1 degrees of
    freedom), hence two numbers. Neither is below the six rounds that a verdict takes.
    """
    from scipy.special import chdtri

    spreads = deviation * np.sqrt((n - 1) / chdtri(n - 1, [0.025, 0.975]))
    fewest, most = (_first_within(float(spread), level, margin) for spread in spreads)
    return Needed(fewest, most)


def _first_within(deviation: float, level: float, margin: float) -> int | None:
    counts = range(FEWEST_LAUNCHES, MOST_ROUNDS + 1)
    # The more rounds, the larger a spread will do.
    place = bisect_left(counts, deviation, key=lambda n: np.log1p(margin) * _largest_spread(n, level))
    return counts[place] if place < len(counts) else None


@cache
def _largest_spread(n: int, level: float) -> float:
    """The largest spread, as a multiple of the margin's logarithm, at which n rounds have the power to show equality.

    With spread s and estimate S the mean M is shown to be within d where |M| + t S / sqrt(n) <= d, t being Student's
    quantile. M has a normal distribution, S^2 a chi squared one, and both are independent: the power is the mean over S
    of 2 F(sqrt(n) d / s - t S / s) - 1, where that is positive (Phillips, "Power of the two one-sided tests procedure
    in bioequivalence", 1990).
    """
    from scipy.optimize import brentq
    from scipy.special import chdtri, ndtr, stdtrit

    # 64 points of the rule by which the power is integrated over the quantiles of the spread.
    nodes, weights = np.polynomial.legendre.leggauss(64)
    estimates = np.sqrt(chdtri(n - 1, (nodes + 1) / 2) / (n - 1))
    critical = -stdtrit(n - 1, level)

    def missing_power(room: float) -> float:
        return float(weights @ np.maximum(2 * ndtr(room - critical * estimates) - 1, 0) / 2) - POWER

    return float(np.sqrt(n) / brentq(missing_power, 0.0, 10.0 + 10.0 * critical))
