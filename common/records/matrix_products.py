"""The record of one launch that multiplied matrices: every part of every call on every rank, raw."""

import statistics
from typing import Literal

import numpy as np

from common.declarations.products import Products
from common.records.header import Header, Moment, Part, Positive, Seconds


class Cell(Part, frozen=True, kw_only=True):
    """The products of one size."""

    size: Positive
    """Rows and columns n of A, B and C."""
    parts: list[str]
    """What a call consists of, one part after the other, such as scatter, broadcast, product, gather."""
    moments_seconds: list[list[list[Moment]]]
    """By rank and call when the rank began, then when it was done with each part: by their host's clock that counts
    from its boot, since rank 0 began its first call."""


class MatrixRecord(Header, frozen=True, kw_only=True, tag="matrix products"):
    """What one launch measured, or why it measured nothing."""

    way: str
    """Its name."""
    title: str = ""
    """Its name in prose. Presentation."""
    kind: Literal["naive", "alone", "rows", "reduction"]
    """What it does, as its declaration says."""
    repetition: Positive = 1
    """Which of the launches of this way it is, from 1: the round that it belongs to."""
    products: Products
    """What was to be multiplied."""
    elapsed_seconds: Seconds = 0.0
    """From the start until it had measured everything."""
    cells: list[Cell] = []
    """One for each size, in the order in which they were measured; none where the launch isn't ok."""


def call_seconds(cell: Cell) -> list[float]:
    """Of each call what passes from when the last rank begins until rank 0 has C."""
    return (np.array(cell.moments_seconds[0])[:, -1] - _last_arrivals(cell)).tolist()


def part_shares(cell: Cell) -> dict[str, float]:
    """Each part's median over the calls on rank 0, of `call_seconds`, as a share of all parts', which add up to 1.

    What rank 0 did before the last rank began counts nowhere, and where it waits for a slower rank counts as the part
    that it waits in.
    """
    clipped = np.maximum(cell.moments_seconds[0], _last_arrivals(cell)[:, np.newaxis])
    medians = np.median(np.diff(clipped, axis=1), axis=0)
    return dict(zip(cell.parts, (medians / medians.sum()).tolist(), strict=True))


def in_words(cell: Cell) -> str:
    """One line on a cell."""
    seconds = call_seconds(cell)
    shares = ", ".join(f"{part} {100 * share:.0f} %" for part, share in part_shares(cell).items())
    median = f"{1e3 * statistics.median(seconds):>12,.3f} ms"
    return f"{cell.size:>6} x {cell.size:<6} {median}  ({len(seconds)} calls; {shares})"


def _last_arrivals(cell: Cell) -> np.ndarray:
    return np.max([[moments[0] for moments in calls] for calls in cell.moments_seconds], axis=0)
