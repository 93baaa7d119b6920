"""The section on algorithms by hand that a session of collectives measured."""

from collections.abc import Collection
from functools import partial

from common.contract.algorithms.all_reduce import ALGORITHMS
from reports import blocks
from reports.charts.message_diagram import messages

_RANKS = 4
"""Of the figure, however many were measured: with fewer the algorithms look alike, and arrows of many overlap."""


def section(measured: Collection[str]) -> list[blocks.Block]:
    """Who sends what when in the algorithms that were measured, among others; nothing where none was."""
    names = [name for name in ALGORITHMS if name in measured]
    if not names:
        return []
    caption = (
        f"All-reduce by hand among {_RANKS} ranks, drawn from the algorithm: a line for each rank, an arrow for each "
        "message, as thick as its share of the elements, which the title gives. No time is measured here."
    )
    alternative = (
        f"A panel for each of {blocks.some(names)}: arrows between {_RANKS} lines, the ranks, in columns, the steps."
    )
    draw = partial(messages, names, _RANKS)
    return [blocks.heading("Who sends what when"), blocks.figure("messages", draw, caption, alternative, stacks=True)]
