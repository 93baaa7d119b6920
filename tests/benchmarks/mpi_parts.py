"""Where a step of torch_sync_sgd over MPI's shared memory goes: computing, flattening, meeting, summing.

To start it, in the environment .nox/torch:
`mpirun -np 2 python tests/benchmarks/mpi_parts.py --preset pathway --scaling weak --steps 4050`.
Each part is the mean over all steps after the warm-up, of rank 0; flattening is what they leave of the whole exchange.
`--no-exchange` tells what the same steps take without exchange.
"""

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from torch import nn

from common.errors import exit_with_one_line
from pytorch_impl import mpi, sync_sgd

PARTS = ("whole exchange", "meeting after own gradients", "sum of own part", "meeting after the sum")


class TimedMean(mpi.GradientMean):
    """The strategy's exchange, with a clock at each of its parts."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        self.seconds: dict[str, list[float]] = {part: [] for part in PARTS}

    def __call__(self, parameters: list[nn.Parameter]) -> None:
        """As the strategy's, noting how long the whole of it took."""
        self._parts = iter(PARTS[1:])
        self._clock("whole exchange", partial(super().__call__, parameters))

    def _meet(self) -> None:
        self._clock(next(self._parts), super()._meet)

    def _sum_part(self) -> None:
        self._clock(next(self._parts), super()._sum_part)

    def _clock(self, part: str, work: Callable[[], None]) -> None:
        started = time.perf_counter()
        work()
        self.seconds[part].append(time.perf_counter() - started)


def main() -> None:
    """Train as the command line says, then print rank 0's parts."""
    made: list[TimedMean] = []

    def make(*arguments: object) -> TimedMean:
        made.append(TimedMean(*arguments))
        return made[0]

    mpi.GradientMean = make
    sync_sgd.main()
    if os.environ["OMPI_COMM_WORLD_RANK"] == "0":
        for part, seconds in made[0].seconds.items():
            later = seconds[50:]
            print(f"{part:<28} {1000 * sum(later) / len(later):.3f} ms (mean of {len(later)} steps)")


if __name__ == "__main__":
    exit_with_one_line(main)
