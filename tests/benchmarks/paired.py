"""Run a strategy and a bare loop in turn, window by window, in the same processes on the same rows.

Every window of the strategy is followed by one of the bare loop with as many steps, so that both see the same machine.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from common.contract.rows import Batch
from common.declarations.strategy import Strategy
from common.measurement import run
from common.measurement.run import Run
from common.measurement.runner import run_script

PAIRS = "LOCKSTEP_PAIRS"
"""Environment variable that names the file for the pairs of windows."""

BareWindow = Callable[[list[np.ndarray]], None]
"""Trains one step on each of these arrays of row numbers, and returns when the device has done it."""


class PairedRun(Run):
    """A Run that lets a bare loop follow each of its windows, outside its own clock."""

    def __init__(
        self, strategy: Strategy, *arguments: object, bare_windows: Mapping[str, Callable[[Run], BareWindow]]
    ) -> None:
        super().__init__(strategy, *arguments)
        self._make_bare_window = bare_windows[strategy.name]
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
        """Write the pairs, the slowest rank's time of each window, to the file that `PAIRS` names."""
        slowest = np.max(self.world.all_gather(self._pairs), axis=0).tolist()
        super().finish(*arguments, **facts)
        if self.world.rank == 0:
            Path(os.environ[PAIRS]).write_text(json.dumps(slowest), encoding="utf-8")


def main(**bare_windows: Callable[[Run], BareWindow]) -> None:
    """Run the strategy's script that the first argument names, in turn with the bare loop of that strategy."""
    run.Run = partial(PairedRun, bare_windows=bare_windows)
    run_script()
