"""Any strategy, with what `common` hands out (rows, weights, rate, resumed state) broken as LOCKSTEP_CONTROL says.

The script that LOCKSTEP_SCRIPT names is run after that, with the arguments of this one. The contract tests must catch
each of `controls_of`; a strategy's own control script breaks its exchange.
"""

import dataclasses
import os
import runpy
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

import numpy as np

from common.contract import mlp, task
from common.contract.rows import Share, share_of
from common.measurement import checkpoints, run
from common.measurement.run import Run
from common.strategy import Strategy, Work


def controls_of(strategy: Strategy) -> tuple[str, ...]:
    """What can be broken for a strategy that shares the work as this one does."""
    has_shards = strategy.work not in (Work.UNDISTRIBUTED, Work.PARTS_OF_ONE_MODEL)
    return ("other_rows", "other_weights", "scaled_rate", "lost_momentum", *(["unsharded"] if has_shards else []))


class RepeatedShare(Share):
    """The whole batch once for each of so many replicas in this process: the count says how many rows that makes."""

    def rows(self, *arguments, **keywords):
        """The rows of every step, repeated."""
        whole = dataclasses.replace(self, count=self.global_batch)
        for rows in Share.rows(whole, *arguments, **keywords):
            yield np.tile(rows, self.count // self.global_batch)


def whole_batch_for_every_worker(given, work, synchronous, rank, workers):
    share = share_of(given, work, synchronous, rank, workers)
    if work is Work.DATA_PARALLEL:
        return Share(share.global_batch, 0, share.global_batch)
    return RepeatedShare(share.global_batch, 0, workers * share.global_batch)


def rows_of_the_next_step(share, row_count, seed, first_step, stop=None, rows=Share.rows):
    return rows(share, row_count, seed, first_step + 1, None if stop is None else stop + 1)


def moved_weights(given, initial_weights=mlp.initial_weights):
    return {name: value + np.float32(0.001) for name, value in initial_weights(given).items()}


def parse_with_scaled_rate(*arguments, parse=task.parse_command_line):
    given, options = parse(*arguments)
    return dataclasses.replace(given, learning_rate=2 * given.learning_rate), options


def read_without_momentum(*arguments, read=checkpoints.read_checkpoint):
    found = read(*arguments)
    lost = {name: value * (not name.endswith(".momentum")) for name, value in found.state.items()}
    return dataclasses.replace(found, state=lost)


def start_apart() -> None:
    """Each rank begins with weights of its own, 0.001 from its neighbour's, until something makes them equal."""
    begin = Run.__init__

    def begin_apart(self, strategy, given, options, world):
        begin(self, strategy, given, options, world)
        moved = np.float32(0.001 * world.rank)
        self.initial_state = {name: value + moved for name, value in self.initial_state.items()}

    Run.__init__ = begin_apart


def break_maths(control: str) -> None:
    """Put the control's error in place of what `common` hands out. Raises ValueError for one that isn't known."""
    if control == "other_rows":
        Share.rows = rows_of_the_next_step
    elif control == "other_weights":
        mlp.initial_weights = moved_weights
    elif control == "scaled_rate":
        task.parse_command_line = parse_with_scaled_rate
    elif control == "lost_momentum":
        checkpoints.read_checkpoint = read_without_momentum
    elif control == "unsharded":
        run.share_of = whole_batch_for_every_worker
    elif control == "apart_then_broadcast":
        start_apart()
    else:
        raise ValueError(control)


if __name__ == "__main__":
    break_maths(os.environ["LOCKSTEP_CONTROL"])
    runpy.run_path(os.environ["LOCKSTEP_SCRIPT"], run_name="__main__")
