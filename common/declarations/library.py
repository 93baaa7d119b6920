"""What a library of collectives says about itself, in its folder's `libraries.py`. Standard library only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from common.declarations.strategy import Family, Launcher, Options

# The bytes that all ranks together send, from the size S and the number of ranks N, as a function and in words.
WHOLE = (lambda size, ranks: 1.0 * size, "S")
PARTS_OF_OTHERS = (lambda size, ranks: (ranks - 1) / ranks * size, "(N - 1) / N S")
WHOLE_OF_OTHERS = (lambda size, ranks: 1.0 * (ranks - 1) * size, "(N - 1) S")
TWICE_OF_OTHERS = (lambda size, ranks: 2.0 * (ranks - 1) * size, "2 (N - 1) S")
WITHIN_ONE_PROCESS = (lambda size, ranks: 0.0, "nothing, within one process")
EMPTY_MESSAGES = (lambda size, ranks: 0.0, "empty messages")

THAKUR = 'Thakur, Rabenseifner & Gropp, "Optimization of collective communication operations in MPICH", 2005'


def gloo_reduce_scatter_bytes(size: int, ranks: int) -> float:
    """The bytes that all ranks together send in Gloo's reduce-scatter of `size` bytes, by recursive halving.

    The ranks are divided into blocks: the largest power of two, the largest of the rest, and so on. Each rank of a
    block of B exchanges a half with another rank, then a quarter, down to a B-th. Each block then sends its sums to the
    next larger block: in all (N - 1) S. The largest block now has the sums, in the order of its ranks' reversed bits.
    So S goes to its final ranks, less the parts that are there already (gloo/reduce_scatter.h,
    ReduceScatterHalvingDoubling).
    """
    steps = ranks.bit_length() - 1
    block, stationary = 2**steps, 0.0
    for rank in range(block):
        position = int(f"{rank:0{steps}b}"[::-1], 2)
        first, end = max(position / block, rank / ranks), min((position + 1) / block, (rank + 1) / ranks)
        stationary += max(end - first, 0.0)
    return size * (ranks - stationary)


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
