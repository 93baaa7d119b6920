"""What a library of collectives says about itself, in its folder's `libraries.py`. Standard library only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from common.declarations.strategy import Family, Launcher, Options

THAKUR = 'Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", 2005'


@dataclass(frozen=True)
class Algorithm:
    """How a library carries out a collective, and what all ranks together send in it."""

    name: str
    """In words, such as ring."""
    sent_bytes: Callable[[int, int], float] | None
    """By formula, from the size in bytes and the number of ranks; None where no formula is known."""
    formula: str
    """The formula in words, with N for the number of ranks and S for the size."""
    source: str
    """The paper, the document or the source file that says so."""
    from_bytes: int = 0
    """From which size on the library takes it."""


# Equal is only what is the same, since its mappings have no hash.
@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """What is measured alone, with no training around it."""

    name: str
    """What it is called on the command line and in records."""
    title: str
    """The name in prose, such as `mpi4py over Open MPI`."""
    script: str
    """Its program, from the repository's root."""
    family: Family
    launcher: Launcher
    options: Options = field(default_factory=Options)
    """What its launcher is told, such as the backend."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Library(Measured):
    """Collectives of one library over one transport: the declaration that all else derives from."""

    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that each of its launches has beside its family's."""
    collectives: Mapping[str, tuple[Algorithm, ...]] = field(default_factory=dict)
    """Of each collective that it has, by the values of `Collective`, its algorithms in the order of `from_bytes`."""
    lacks: Mapping[str, str] = field(default_factory=dict)
    """Of each collective that it lacks the reason, in one sentence."""
    types: tuple[str, ...] = ("float32",)
    """NumPy's names of the element types that it can send."""
    one_process: bool = False
    """Whether its ranks are devices of one process."""
    both_ways: bool = False
    """Whether it can be told to send from the last rank to the first one too, as a pipeline does."""
    needs_gpus: bool = False
    """Whether it joins GPUs alone."""
    by_default: bool = True
    """Whether a session measures it where no library is named."""

    most_workers: ClassVar[int | None] = None
    """How many workers it can have: any number."""

    def algorithm(self, collective: str, size_bytes: int) -> Algorithm | None:
        """How it carries out the collective at this size; None where it lacks it."""
        fitting = [each for each in self.collectives.get(collective, ()) if each.from_bytes <= size_bytes]
        return fitting[-1] if fitting else None
