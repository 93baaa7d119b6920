"""Latency and bandwidth, fitted to what one library's collective takes at each size: T(S) = alpha + S / beta.

That is Hockney's model ("The communication challenge for MPP: Intel Paragon and Meiko CS-2", Parallel Computing 20,
1994). Libraries change their protocol or algorithm with the size, so there may be several such lines, each over sizes
that follow one another. As many are taken as Schwarz's criterion finds ("Estimating the dimension of a model", Annals
of Statistics 6, 1978).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from common.statistics.intervals import FEWEST_LAUNCHES

FEWEST_SIZES = 3
"""Two parameters always go through two sizes: a piece with fewer than three says nothing of how well it fits."""

MOST_PIECES = 3

_RESAMPLES, _SEED = 1000, 0
_TAILS = (2.5, 97.5)

_NEGLIGIBLE = 1e-6
"""Fits that miss by less than this share are equally good: what is left is rounding."""


@dataclass(frozen=True)
class Estimate:
    """A fitted number and its 95 % interval over the launches, NaN below six launches."""

    value: float
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Piece:
    """One line, over the sizes from `from_bytes` to `to_bytes`, both of which were measured."""

    from_bytes: int
    to_bytes: int
    latency_seconds: Estimate
    """Alpha: what nothing would take by this line."""
    bytes_per_second: Estimate
    """Beta; infinite where time doesn't grow with the size."""

    def seconds(self, size_bytes: float) -> float:
        """What so many bytes take by this line."""
        return self.latency_seconds.value + size_bytes / self.bytes_per_second.value


@dataclass(frozen=True)
class Fit:
    """The lines through what launches measured at several sizes."""

    launches: int
    pieces: tuple[Piece, ...]
    """In the order of their sizes."""
    residuals: tuple[float, ...]
    """Of each size (fitted - measured) / measured; measured is the median over the launches."""


def fit(size_bytes: Sequence[int], seconds: np.ndarray) -> Fit | None:
    """Fit one to three lines to `seconds` (sizes, launches): what the collective took at each size in each launch.

    The squares of the relative errors (fitted - measured) / measured of the launches' medians are least, with neither
    latency nor time per byte below zero. Each line has three sizes at least. Schwarz's criterion counts the sizes as
    observations, not calls, and as parameters two for each line and one for each breakpoint. It isn't made for so few:
    of straight lines with noise it breaks one in six at 24 sizes, and nearly every second one at 6 to 10. The intervals
    are percentiles of a bootstrap (Efron & Tibshirani, "An Introduction to the Bootstrap", 1993, section 13.3) that
    draws whole launches, which measured all sizes, and keeps the number of pieces.

    None with fewer than three sizes.
    """
    if len(size_bytes) < FEWEST_SIZES:
        return None
    sizes, medians, launches = np.asarray(size_bytes, dtype=float), np.median(seconds, axis=1), seconds.shape[1]
    most = min(MOST_PIECES, len(sizes) // FEWEST_SIZES)
    divisions = [_divided(sizes, medians[None], count) for count in range(1, most + 1)]
    criteria = []
    for count, (*_, misfits) in enumerate(divisions, start=1):
        # Schwarz's, for normal errors whose deviation isn't known, but for a constant.
        mean_square = max(float(misfits.sum()) / len(sizes), _NEGLIGIBLE**2)
        criteria.append(len(sizes) * math.log(mean_square) + (3 * count - 1) * math.log(len(sizes)))
    best = divisions[int(np.argmin(criteria))][:, 0]
    ends = np.full((2, *best.shape), math.nan)
    if launches >= FEWEST_LAUNCHES:
        ends = np.percentile(_divided(sizes, _resampled(seconds), best.shape[1]), _TAILS, axis=1)
    # Each (pieces, 3): the value, and the lower and the upper end of its interval.
    starts, latencies, slopes, _ = np.moveaxis(np.array([best, *ends]), 0, -1)
    with np.errstate(divide="ignore"):
        # The largest slope is the lowest bandwidth. A slope of -0.0 is infinite bandwidth too, not minus infinity.
        bandwidths = 1 / np.abs(slopes[:, [0, 2, 1]])
    spans = np.split(np.asarray(size_bytes), np.searchsorted(sizes, starts[1:, 0]))
    pieces = tuple(
        Piece(int(span[0]), int(span[-1]), Estimate(*latency), Estimate(*bandwidth))
        for span, latency, bandwidth in zip(spans, latencies.tolist(), bandwidths.tolist(), strict=True)
    )
    fitted = [piece.seconds(size) for piece, span in zip(pieces, spans, strict=True) for size in span.tolist()]
    return Fit(launches, pieces, tuple((fitted / medians - 1).tolist()))


def exponent(sizes: Sequence[int], seconds: np.ndarray) -> Estimate | None:
    """The slope of log seconds over log size: p, where size s takes about s^p; None with fewer than two sizes.

    The least-squares line goes through the medians of `seconds` (sizes, launches). Its interval has the percentiles of
    a bootstrap over the launches, as that of `fit`.
    """
    if len(sizes) < 2 or not seconds.size:
        return None
    logs = np.log(seconds)

    def slopes(columns: np.ndarray) -> np.ndarray:
        return np.polyfit(np.log(sizes), columns, 1)[0]

    is_enough = logs.shape[1] >= FEWEST_LAUNCHES
    ends = np.percentile(slopes(_resampled(logs).T), _TAILS).tolist() if is_enough else []
    return Estimate(float(slopes(np.median(logs, axis=1)[:, None])[0]), *ends)


def _divided(sizes: np.ndarray, seconds: np.ndarray, pieces: int) -> np.ndarray:
    """Cut each series of `seconds` (series, sizes) where that many lines fit it best.

    Returns each piece's first size, latency, seconds per byte and misfit: (4, series, pieces).
    """
    inner = combinations(range(FEWEST_SIZES, len(sizes) - FEWEST_SIZES + 1), pieces - 1)
    divisions = [[*pairwise((0, *cuts, len(sizes)))] for cuts in inner]
    divisions = [spans for spans in divisions if all(end - first >= FEWEST_SIZES for first, end in spans)]
    spans_of_any = {span for spans in divisions for span in spans}
    lines_of = {span: lines(sizes[slice(*span)], seconds[:, slice(*span)]) for span in spans_of_any}
    misfits = np.array([sum(lines_of[span][-1] for span in spans) for spans in divisions])
    best = np.argmin(misfits, axis=0)
    chosen = [
        [(sizes[span[0]], *lines_of[span][:, series]) for span in divisions[each]] for series, each in enumerate(best)
    ]
    return np.moveaxis(np.array(chosen), -1, 0)


def lines(sizes: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """Latency, seconds per byte and misfit (3, series) of the best line through each of `seconds` (series, sizes).

    The squares of the relative errors are least, with neither latency nor time per byte below zero.

    It is weighted non-negative least squares in closed form: without the constraint at most one of the two can be below
    zero, since all sizes and times are above it, and the best that is allowed then has that one at zero. A general
    solver would take a call for each of many thousands of series.
    """
    weights = seconds**-2.0
    total = weights.sum(axis=1)
    size, second = (weights * sizes).sum(axis=1) / total, (weights * seconds).sum(axis=1) / total
    off = sizes - size[:, None]
    slope = (weights * off * (seconds - second[:, None])).sum(axis=1) / (weights * off**2).sum(axis=1)
    through_zero = (weights * sizes * seconds).sum(axis=1) / (weights * sizes**2).sum(axis=1)
    free = slope * size <= second
    slope = np.where(free, np.maximum(slope, 0.0), through_zero)
    latency = np.where(free, second - slope * size, 0.0)
    errors = (latency[:, None] + slope[:, None] * sizes) / seconds - 1
    return np.array([latency, slope, (errors**2).sum(axis=1)])


def _resampled(seconds: np.ndarray) -> np.ndarray:
    """Medians (resamples, sizes) over launches that are drawn with replacement, the same ones at all sizes."""
    # In an order of their own, so that the draws don't depend on which launch came first.
    ordered = seconds[:, np.lexsort(seconds[::-1])]
    launches = seconds.shape[1]
    drawn = np.random.default_rng(_SEED).integers(launches, size=(_RESAMPLES, launches))
    return np.median(ordered[:, drawn], axis=-1).T
