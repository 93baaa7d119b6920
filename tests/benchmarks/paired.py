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

from common.dataset import Batch, RowOrder, shard_bounds
from common.run import Run

BareWindow = Callable[[list[np.ndarray]], None]
"""Trains one step on each of these arrays of row numbers, and returns when the device has done it."""


class PairedRun(Run):
    """A Run that lets a bare loop follow each of its windows, outside its own clock."""

    def __init__(self, *arguments: object, make_bare_window: Callable[[Run], BareWindow], **keywords: object) -> None:
        super().__init__(*arguments, **keywords)
        self._make_bare_window = make_bare_window
        self._pairs: list[tuple[float, float]] = []

    def steps(self, whole_batch: bool = False) -> Iterator[Batch]:
        """The strategy's batches; where one of its windows has just closed, the bare loop takes its turn."""
        bare_window = None
        order = RowOrder(len(self.dataset.train_labels), self.config.seed)
        for batch in super().steps(whole_batch):
            yield batch
            if self._window_start is not None:
                continue
            bare_window = bare_window or self._make_bare_window(self)
            steps = range(self._window_step, self._step)
            bounds = [shard_bounds(step, self.global_batch, self._rank, self._own_rows) for step in steps]
            rows = [order.cut(*pair) for pair in bounds]
            started = time.perf_counter()
            bare_window(rows)
            seconds = time.perf_counter() - started
            if self._window_step >= self.config.warmup_steps:
                self._pairs.append((self._windows[-1]["seconds"], seconds))

    def finish(self, state: dict) -> None:
        """Write the pairs, the slowest rank's time of each window, to the file that LOCKSTEP_PAIRS names."""
        slowest = np.max(self._all_gather(self._pairs), axis=0).tolist()
        super().finish(state)
        if self._rank == 0:
            Path(os.environ["LOCKSTEP_PAIRS"]).write_text(json.dumps(slowest))


def main(strategy: ModuleType, make_bare_window: Callable[[Run], BareWindow]) -> None:
    """Run the strategy's own main with the bare loop in turn."""
    strategy.Run = partial(PairedRun, make_bare_window=make_bare_window)
    strategy.main()
