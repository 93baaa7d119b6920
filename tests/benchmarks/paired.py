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

from common.dataset import Batch
from common.run import Run

BareWindow = Callable[[list[np.ndarray]], None]
"""Trains one step on each of these arrays of row numbers, and returns when the device has done it."""


class PairedRun(Run):
    """A Run that lets a bare loop follow each of its windows, outside its own clock."""

    def __init__(self, *arguments: object, make_bare_window: Callable[[Run], BareWindow], **keywords: object) -> None:
        super().__init__(*arguments, **keywords)
        self._make_bare_window = make_bare_window
        self._pairs: list[tuple[float, float]] = []

    def _windows_of_batches(self, whole_batch: bool = False) -> Iterator[list[Batch]]:
        """The strategy's windows; after each of them the bare loop takes its turn."""
        bare_window = None
        for batches in super()._windows_of_batches(whole_batch):
            yield batches
            bare_window = bare_window or self._make_bare_window(self)
            rows = list(self.rows(self._window_step, self._step))
            started = time.perf_counter()
            bare_window(rows)
            seconds = time.perf_counter() - started
            if self._window_step >= self.config.warmup_steps:
                self._pairs.append((self._windows[-1]["seconds"], seconds))

    def finish(self, *arguments: object, **facts: object) -> None:
        """Write the pairs, the slowest rank's time of each window, to the file that LOCKSTEP_PAIRS names."""
        slowest = np.max(self._all_gather(self._pairs), axis=0).tolist()
        super().finish(*arguments, **facts)
        if self._rank == 0:
            Path(os.environ["LOCKSTEP_PAIRS"]).write_text(json.dumps(slowest))


def main(
    strategy: ModuleType, make_bare_window: Callable[[Run], BareWindow], joined_by: ModuleType | None = None
) -> None:
    """Run the strategy's own main with the bare loop in turn; `joined_by` is another module that makes its Run."""
    (joined_by or strategy).Run = partial(PairedRun, make_bare_window=make_bare_window)
    strategy.main()
