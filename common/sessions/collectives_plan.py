"""Which launches a session of the laboratory makes, in which order: rounds, each with every library, shuffled."""

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from common.contract.collectives import Collective
from common.declarations import catalogue
from common.declarations.library import Library
from common.declarations.sweep import Sweep, Type
from common.errors import UserError
from common.launching.planned import Hosts, PlannedSweep, Size
from common.sessions.comparison_plan import placements

_QUICK = Sweep(sizes=("8", "4K", "256K", "4M"))
_FULL = Sweep(collectives=tuple(Collective), max_bytes="64M", deadline_seconds=3600.0)


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What a session measures; every option narrows or widens its profile. The short ones are those of nccl-tests."""

    profile: Literal["quick", "full"] = "quick"
    """quick: all-reduce, all-gather and broadcast at 8 B, 4 KiB, 256 KiB and 4 MiB, 2 ranks, 6 launches of each
    library, in about 5 minutes. full: hours; every collective from 8 B to 64 MiB, 2 and 4 ranks, 10 launches."""
    libraries: tuple[str, ...] = ()
    """Only these libraries; none named: all."""
    workers: tuple[int, ...] = ()
    """Numbers of ranks; none: the profile's."""
    repetitions: int | None = None
    """Launches of each library with each number of ranks; none: the profile's."""
    collectives: tuple[Collective, ...] = ()
    """Only these; none named: the profile's."""
    sizes: tuple[str, ...] = ()
    """Exactly these sizes, such as 8 4K 1M."""
    min_bytes: Annotated[str | None, tyro.conf.arg(aliases=("-b",))] = None
    """Smallest size, such as 8, 4K or 1M; none: 8."""
    max_bytes: Annotated[str | None, tyro.conf.arg(aliases=("-e",))] = None
    """Largest size; none: 4M (quick) or 64M (full)."""
    step_factor: Annotated[int | None, tyro.conf.arg(aliases=("-f",))] = None
    """Each size is this times the one before; none: 2."""
    iterations: Annotated[int, tyro.conf.arg(aliases=("-n",))] = _QUICK.iterations
    """Timed calls at each size in each launch."""
    warmup_iterations: Annotated[int, tyro.conf.arg(aliases=("-w",))] = _QUICK.warmup_iterations
    """Calls at each size before them."""
    check: Annotated[bool, tyro.conf.arg(aliases=("-c",))] = True
    """Compare what every rank got in every timed call with NumPy, outside the clock."""
    data_type: Annotated[Type, tyro.conf.arg(aliases=("-d",))] = _QUICK.data_type
    """Type of the elements."""
    spread: tyro.conf.Suppress[Hosts | None] = None
    """The hosts where there are several, which other options name."""

    def __post_init__(self) -> None:
        """Raises UserError for any value that can't be meant."""
        if self.repetitions is not None and self.repetitions < 1:
            raise UserError(f"--repetitions {self.repetitions}: give a whole number above 0.")
        given = [name for name in ("min_bytes", "max_bytes", "step_factor") if getattr(self, name) is not None]
        if self.sizes and given:
            raise UserError(f"--sizes and --{given[0].replace('_', '-')}: give one of them.")
        for name in self.libraries:
            catalogue.find_library(name)
        for workers in self.ranks:
            self.sweep(workers)

    @property
    def ranks(self) -> tuple[int, ...]:
        """The numbers of ranks, in ascending order."""
        return tuple(sorted({*self.workers})) or ((2,) if self.profile == "quick" else (2, 4))

    @property
    def rounds(self) -> int:
        """How many launches each library has with each number of ranks."""
        return self.repetitions or (6 if self.profile == "quick" else 10)

    def sweep(self, workers: int) -> Sweep:
        """What a launch with so many ranks measures. Raises UserError for a value that can't be meant."""
        like = _QUICK if self.profile == "quick" else _FULL
        series = {"min_bytes": self.min_bytes, "max_bytes": self.max_bytes, "step_factor": self.step_factor}
        series = {name: value for name, value in series.items() if value is not None}
        chosen = {"sizes": self.sizes} if self.sizes or series else {}
        return dataclasses.replace(
            like,
            **series,
            **chosen,
            collectives=self.collectives or like.collectives,
            iterations=self.iterations,
            warmup_iterations=self.warmup_iterations,
            check=self.check,
            data_type=self.data_type,
            workers=workers,
        )


def rounds(scope: Scope, seed: int, gpus: int) -> list[list[PlannedSweep]]:
    """The launches of every round: all libraries with every number of ranks, in an order that the seed shuffles.

    What can't be, such as a library that joins GPUs where there are too few, is launched once, which says so.
    """
    order, found = random.Random(seed), []
    for repetition in range(1, scope.rounds + 1):
        launches = [
            _placed(library, scope, size, repetition)
            for library in chosen(scope)
            for workers in scope.ranks
            for size in placements(scope.spread, workers)
            if repetition == 1 or _can_be(library, size, gpus)
        ]
        order.shuffle(launches)
        found.append(launches)
    return found


def _placed(library: Library, scope: Scope, size: Size, repetition: int) -> PlannedSweep:
    hosts = size.hosts if scope.spread else None
    return PlannedSweep(library, scope.sweep(size.workers), repetition, hosts, size.bandwidth_bits_per_second)


def _can_be(library: Library, size: Size, gpus: int) -> bool:
    spans = size.hosts == 1 or library.launcher.across_hosts is not None
    return spans and (not library.needs_gpus or gpus >= size.workers)


def chosen(scope: Scope) -> Sequence[Library]:
    """The libraries that the scope names, or all."""
    return [catalogue.find_library(name) for name in scope.libraries] or [*catalogue.libraries().values()]
