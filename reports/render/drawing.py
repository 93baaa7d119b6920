"""The figures of a report drawn once, for all documents that show them, on two cores at a time."""

import gc
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from common.launching.processes import end_with_parent
from reports.blocks import Draw
from reports.charts import style

Drawings = dict[str, Draw]
"""By its file's name how each figure is drawn."""

_MOST_PROCESSES = 2
_FEWEST_FIGURES = 4  # From which on starting processes takes less time than it saves.


def draw_all(drawings: Drawings) -> dict[str, bytes]:
    """Every figure as SVG by its file's name: the same bytes in however many processes they are drawn."""
    processes = min(_MOST_PROCESSES, len(os.sched_getaffinity(0)))
    if processes == 1 or len(drawings) < _FEWEST_FIGURES:
        return {name: draw() for name, draw in drawings.items()}
    # A fork has imported all that it needs, and its garbage collector needn't walk through all records again.
    gc.collect()
    gc.freeze()
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(processes, fork, initializer=end_with_parent, initargs=(os.getpid(),)) as pool:
        return dict(zip(drawings, pool.map(_draw, drawings.values()), strict=True))


def narrow(drawings: Drawings) -> Drawings:
    """The same figures for a narrow page, by `narrow_name`."""
    return {narrow_name(name): partial(draw, width=style.NARROW) for name, draw in drawings.items()}


def narrow_name(name: str) -> str:
    """The file's name of the figure for a narrow page."""
    return f"narrow-{name}"


def _draw(draw: Draw) -> bytes:
    return draw()
