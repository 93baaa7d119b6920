"""Which of two strategies is faster, from pairs of launches of the same round: a family of paired t tests.

Rounds are blocks: a machine that slows down slows both launches of a pair, so their log ratio has less spread than
either time. A family is all comparisons whose verdicts stand side by side: the risk of any false "faster" or "slower"
is that of the whole family, and so is the risk of any false "alike". It has to be known before the launches who is
compared with whom: nothing here allows for comparisons that were chosen for what they showed.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from common.measurement.intervals import FEWEST_LAUNCHES

FAMILY_ERROR = 0.05
"""The largest probability that a family has any false "different", and, by itself, that it has any false "alike"."""

MARGIN = 0.05
"""By how much two strategies may differ and be called alike, where nobody asks for another margin."""

MOST_ROUNDS = 10_000
"""Where an answer would take more rounds than this, it is said that it takes more."""


@dataclass(frozen=True)
class Needed:
    """How many rounds an interval as narrow as the margin takes: from `fewest` to `most`; None: over `MOST_ROUNDS`."""

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

        Who is surely different by surely less than the margin is alike.
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


def judge(family: Sequence[Sequence[float]], margin: float = MARGIN) -> list[Judgement]:
    """Judge every comparison of a family, each given as the log ratios of its rounds, second rate over first.

    Comparisons of fewer than six rounds take no part in the correction: how many a comparison has doesn't depend on
    what they show. Raises ValueError for one without rounds.
    """
    if not all(map(len, family)):
        raise ValueError("A comparison needs at least one round.")
    means = [float(np.mean(logs)) for logs in family]
    told = [index for index, logs in enumerate(family) if len(logs) >= FEWEST_LAUNCHES]
    deviations = [float(np.std(family[index], ddof=1)) for index in told]
    counts = [len(family[index]) for index in told]
    decisions = decide(np.array([means[index] for index in told]), np.array(deviations), np.array(counts), margin)
    found = {}
    for place, index in enumerate(told):
        half_width = decisions.half_width[place]
        found[index] = Judgement(
            n=counts[place],
            ratio=float(np.exp(means[index])),
            low=float(np.exp(means[index] - half_width)),
            high=float(np.exp(means[index] + half_width)),
            p=float(decisions.p[place]),
            different=bool(decisions.different[place]),
            alike=bool(decisions.alike[place]),
            needed=rounds_needed(deviations[place], counts[place], len(told), margin),
        )
    unknown = float("nan")
    return [
        found.get(index)
        or Judgement(len(logs), float(np.exp(means[index])), unknown, unknown, unknown, False, False, None)
        for index, logs in enumerate(family)
    ]


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
    from scipy.special import stdtr

    comparisons = np.shape(means)[-1]
    errors = deviations / np.sqrt(counts)
    with np.errstate(divide="ignore", invalid="ignore"):
        distances = np.where(errors > 0, np.abs(means) / errors, np.where(means == 0, 0.0, np.inf))
        rooms = np.log1p(margin) - np.abs(means)
        inside = np.where(errors > 0, rooms / errors, np.where(rooms > 0, np.inf, -np.inf))
    p = holm(2 * stdtr(counts - 1, -distances))
    alike = stdtr(counts - 1, -inside) <= FAMILY_ERROR / max(comparisons, 1)
    return Decisions(p, half_width(deviations, counts, comparisons), p <= FAMILY_ERROR, alike)


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's corrected p-values of families, (..., comparisons)."""
    order = np.argsort(p, axis=-1)
    factors = np.arange(p.shape[-1], 0, -1)
    stepped = np.maximum.accumulate(np.take_along_axis(p, order, -1) * factors, axis=-1)
    corrected = np.empty_like(stepped)
    np.put_along_axis(corrected, order, np.minimum(stepped, 1.0), -1)
    return corrected


def half_width(deviation: float | np.ndarray, n: int | np.ndarray, comparisons: int) -> np.ndarray:
    """Half the width of the simultaneous 95 % interval of a mean log ratio: Student's t with Bonferroni's level."""
    from scipy.special import stdtrit

    return -stdtrit(np.asarray(n) - 1, FAMILY_ERROR / 2 / max(comparisons, 1)) * deviation / np.sqrt(n)


def rounds_needed(deviation: float, n: int, comparisons: int, margin: float) -> Needed:
    """With how many rounds the interval's half-width would reach the margin, by the spread and never by the difference.

    The spread of n rounds has a 95 % interval itself (chi squared with n - 1 degrees of freedom), hence two numbers.
    Neither is below the six rounds that a verdict takes.
    """
    from scipy.special import chdtri

    spreads = deviation * np.sqrt((n - 1) / chdtri(n - 1, [0.025, 0.975]))
    fewest, most = (_first_within(spread, comparisons, margin) for spread in spreads)
    return Needed(fewest, most)


def _first_within(deviation: float, comparisons: int, margin: float) -> int | None:
    counts = range(FEWEST_LAUNCHES, MOST_ROUNDS + 1)
    # The more rounds, the narrower.
    place = bisect_left(counts, -np.log1p(margin), key=lambda n: -half_width(deviation, n, comparisons))
    return counts[place] if place < len(counts) else None
