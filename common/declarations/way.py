"""What a way to multiply two matrices says about itself, in its folder's `matrices.py`. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from common.declarations.library import Measured


@dataclass(frozen=True, kw_only=True, eq=False)
class Way(Measured):
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
