"""A program that multiplies two matrices, C = A B, as its folder's `matrices.py` declares it, and what it multiplies.

Standard library only.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from common.declarations.library import Measured
from common.declarations.strategy import check_bounds, option
from common.errors import UserError

MOST_ROWS = 8192
"""The largest size: with its check it takes about 2 GB."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MatrixProgram(Measured):
    """A way to compute C = A B: the declaration that all else derives from."""

    kind: Literal["naive", "alone", "rows", "reduction"]
    """The triple loop in one process; the framework's own product in one process, which is the base of the others; the
    rows of A dealt out to workers; its columns dealt out with the rows of B, and whole-size products added up."""

    @property
    def is_distributed(self) -> bool:
        """Whether workers share the product."""
        return self.kind in ("rows", "reduction")

    @property
    def most_workers(self) -> int | None:
        """How many workers it can have; None: any number."""
        return None if self.is_distributed else 1


@dataclass(frozen=True, kw_only=True)
class Products:
    """What is multiplied, and how often."""

    sizes: tuple[int, ...] = (64, 128, 256, 512, 1024)
    """Rows and columns of the square matrices, one size after the other."""
    iterations: int = option(10, at_least=1)
    """Timed products of each size, each of other matrices."""
    warmup_iterations: int = option(2, at_least=0)
    """Products of each size before them."""
    workers: int | None = option(None, at_least=1)
    """Processes that share a product; none: as many as the launcher starts."""
    threads: int = option(1, at_least=1)
    """Threads that each of them computes with."""
    seed: int = option(0, at_least=0)
    """Seed of the matrices."""
    deadline_seconds: float = option(120.0, above=0, at_most=86400)
    """The whole launch is ended after this time, and a rank waits no longer than this for another one."""
    record: Path | None = None
    """File of the launch's record; none: nothing is kept."""
    device: ClassVar[str] = "cpu"
    """Where the matrices are: in the host's memory."""

    def __post_init__(self) -> None:
        """Raises UserError for any value that can't be meant."""
        if not self.sizes or not all(1 <= size <= MOST_ROWS for size in self.sizes):
            sizes = " ".join(map(str, self.sizes))
            raise UserError(f"--sizes {sizes}: give one or more, all of them whole numbers from 1 to {MOST_ROWS}.")
        check_bounds(self)


def check_workers(way: MatrixProgram, products: Products, workers: int) -> None:
    """Raises UserError where the way can't have so many workers, or they can't share the matrices evenly."""
    if not way.is_distributed:
        if workers > 1:
            raise UserError(f"{way.name} is one process: leave --workers out, or choose another way.")
        return
    if workers < 2:
        raise UserError(f"{way.name} with {workers} worker distributes nothing: give it 2 or more.")
    if uneven := next((size for size in products.sizes if size % workers), None):
        raise UserError(f"{workers} workers can't share {uneven} rows evenly: give --sizes that {workers} divides.")
