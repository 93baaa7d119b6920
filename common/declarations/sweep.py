"""The collectives, the sizes and the repetitions that a launch of the laboratory measures."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import tyro

from common.contract.collective_meanings import Collective
from common.declarations.strategy import check_bounds, option
from common.errors import UserError

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}
_MOST_SIZES = 64

Type = Literal["float32", "float64", "float16", "int8", "uint8", "int32", "int64"]


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """What is measured, and how. The short options are those of nccl-tests."""

    collectives: tuple[Collective, ...] = (Collective.ALL_REDUCE, Collective.ALL_GATHER, Collective.BROADCAST)
    """What to measure, in this order."""
    sizes: tuple[str, ...] = ()
    """Exactly these sizes, such as 8 4K 1M, in place of those from --min-bytes to --max-bytes."""
    min_bytes: Annotated[str, tyro.conf.arg(aliases=("-b",))] = "8"
    """Smallest size, such as 8, 4K or 1M."""
    max_bytes: Annotated[str, tyro.conf.arg(aliases=("-e",))] = "4M"
    """Largest size."""
    step_factor: Annotated[int, tyro.conf.arg(aliases=("-f",))] = option(2, at_least=2)
    """Each size is this times the one before."""
    messages: Path | None = None
    """In place of all these the messages of a strategy's step, as its tracer left them in this file: each call sends
    all of them, one after another."""
    iterations: Annotated[int, tyro.conf.arg(aliases=("-n",))] = option(20, at_least=1)
    """Timed calls at each size."""
    warmup_iterations: Annotated[int, tyro.conf.arg(aliases=("-w",))] = option(5, at_least=0)
    """Calls at each size before them."""
    check: Annotated[bool, tyro.conf.arg(aliases=("-c",))] = True
    """Compare what every rank got in every timed call with NumPy, outside the clock."""
    data_type: Annotated[Type, tyro.conf.arg(aliases=("-d",))] = "float32"
    """Type of the elements."""
    workers: int = option(2, at_least=2, at_most=127)
    """Ranks: no more than elements of one byte can tell apart."""
    threads: int = option(1, at_least=1)
    """Threads that each rank computes with."""
    device: Literal["auto", "cpu", "gpu"] = "auto"
    """Where the tensors are; auto: on GPUs where each rank can have one of its own, else in the host's memory."""
    seed: int = option(0, at_least=0)
    """Seed of what is sent."""
    deadline_seconds: float = option(300.0, above=0, at_most=86400)
    """The whole launch is ended after this time, and a rank waits no longer than this for another one."""
    record: Path | None = None
    """File of the launch's record; none: nothing is kept."""

    def __post_init__(self) -> None:
        """Raises UserError for any value that can't be meant."""
        check_bounds(self)
        if not self.size_bytes:
            raise UserError(f"--min-bytes {self.min_bytes} is above --max-bytes {self.max_bytes}: swap them.")
        if not self.collectives:
            raise UserError(f"--collectives: name one at least of {', '.join(Collective)}.")
        item_bytes = np.dtype(self.data_type).itemsize
        if uneven := next((size for size in self.size_bytes if size % item_bytes), None):
            raise UserError(
                f"{uneven} bytes aren't a whole number of {self.data_type}: give multiples of {item_bytes}."
            )
        if len(self.size_bytes) > _MOST_SIZES:
            raise UserError(f"That is {len(self.size_bytes)} sizes: give {_MOST_SIZES} at most.")
        if len({*self.collectives}) < len(self.collectives):
            raise UserError(f"--collectives {' '.join(self.collectives)}: name each once.")

    @property
    def size_bytes(self) -> list[int]:
        """The sizes, in ascending order."""
        if self.sizes:
            return sorted({_bytes_of("--sizes", size) for size in self.sizes})
        sizes, last = [_bytes_of("--min-bytes", self.min_bytes)], _bytes_of("--max-bytes", self.max_bytes)
        while sizes[-1] <= last:
            sizes.append(sizes[-1] * self.step_factor)
        return sizes[:-1]


def _bytes_of(option: str, text: str) -> int:
    """Bytes of a size as a user gives it. Raises UserError for one that can't be."""
    match = re.fullmatch(r"([1-9]\d{0,15})([KMG]?)(i?B)?", text.strip(), re.IGNORECASE)
    if not match:
        raise UserError(f"{option} {text} isn't a size: give bytes, such as 8, 4K or 64M.")
    return int(match[1]) * _UNITS[match[2].upper()]
