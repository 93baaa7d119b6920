"""What a way to multiply two matrices says about itself, in its folder's `matrices.py`. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from common.declarations.strategy import Family, Launcher, Options


# Equal is only what is the same, as with strategies.
@dataclass(frozen=True, kw_only=True, eq=False)
class Way:
    """A way to compute C = A B: the declaration that all else derives from."""

    name: str
    """What it is called on the command line and in records."""
    title: str
    """The name in prose, such as `by rows over MPI`."""
    kind: Literal["naive", "alone", "rows", "reduction"]
    """The triple loop in one process; the framework's own product in one process, which is the base of the others; the
    rows of A dealt out to workers; its columns dealt out with the rows of B, and whole-size products added up."""
    script: str
    """Its program, from the repository's root."""
    family: Family
    launcher: Launcher
    options: Options = field(default_factory=Options)
    """What its launcher is told, such as the backend."""

    @property
    def is_distributed(self) -> bool:
        """Whether workers share the product."""
        return self.kind in ("rows", "reduction")

    @property
    def most_workers(self) -> int | None:
        """How many workers it can have; None: any number."""
        return None if self.is_distributed else 1
