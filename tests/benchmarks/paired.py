"""Run a strategy and a bare loop in turn, window by window, in the same processes on the same rows.

Every window of the strategy is followed by one of the bare loop with as many steps, so that both see the same machine.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

import numpy as np

from common.contract.rows import Batch
from common.measurement.run import Run

BareWindow = Callable[[list[np.ndarray]], None]
"""Trains one step on each of these arrays of row numbers, and returns when the device has done it."""


class PairedRun(Run):
    """A Run that lets a bare loop follow each of its windows, outside its own clock."""

    def __init__(self, *arguments: object, make_bare_window: Callable[[Run], BareWindow]) -> None:
        super().__init__(*arguments)
        self._make_bare_window = make_bare_window
        self._pairs: list[tuple[float, float]] = []

    def windows(self) -> Iterator[list[Batch]]:
        """The strategy's windows; after each of them the bare loop takes its turn."""
        bare_window = None
        for batches in super().windows():
            yield batches
            bare_window = bare_window or self._make_bare_window(self)
            rows = [batch.rows for batch in batches]
            started = time.perf_counter()
            bare_window(rows)
            seconds = time.perf_counter() - started
            # Those of the warm-up aren't among them.
            if self.clock.windows:
                self._pairs.append((self.clock.windows[-1].seconds, seconds))

    def finish(self, *arguments: object, **facts: object) -> None:
        """Write the pairs, the slowest rank's time of each window, to the file that LOCKSTEP_PAIRS names."""
        slowest = np.max(self.world.all_gather(self._pairs), axis=0).tolist()
        super().finish(*arguments, **facts)
        if self.world.rank == 0:
            Path(os.environ["LOCKSTEP_PAIRS"]).write_text(json.dumps(slowest), encoding="utf-8")


def main(strategy: ModuleType, make_bare_window: Callable[[Run], BareWindow]) -> None:
    """Run the strategy's own main with the bare loop in turn."""
    strategy.Run = partial(PairedRun, make_bare_window=make_bare_window)
    strategy.main()
