"""What `common` hands out to any strategy, broken: each error is a context, in which the strategy trains.

The contract tests must catch each of `controls_of`; what can go wrong in a strategy's own exchange is broken by the
module here that has its folder's name.
"""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from unittest.mock import patch

import numpy as np

from common.contract import model, task
from common.contract.rows import Share, share_of
from common.contract.work import Work
from common.declarations.strategy import Strategy
from common.measurement import run
from common.measurement.run import Run


def controls_of(strategy: Strategy) -> tuple[str, ...]:
    """What can be broken for a strategy that shares the work as this one does."""
    has_shards = strategy.work not in (Work.UNDISTRIBUTED, Work.PARTS_OF_ONE_MODEL)
    of_shards = ("whole_batch", "another_shard", "rows_twice") if has_shards else ()
    return ("other_rows", "other_weights", "scaled_rate", "late_schedule", "lost_momentum", *of_shards)


class RepeatedShare(Share):
    """The whole batch once for each of the replicas in this process: the count says how many rows that makes."""

    def rows(self, *arguments, **keywords):
        """The rows of every step, repeated."""
        whole = dataclasses.replace(self, count=self.global_batch)
        for rows in Share.rows(whole, *arguments, **keywords):
            yield np.tile(rows, self.count // self.global_batch)


def whole_batch_for_each_of_two_workers(*arguments):
    share = share_of(*arguments)
    return RepeatedShare(share.global_batch, 0, 2 * share.count)


def shard_of_the_other_worker(share, *arguments, rows=Share.rows, **keywords):
    """The rows of the other one of two workers, also where both are in this process."""
    for whole in rows(dataclasses.replace(share, start=0, count=share.global_batch), *arguments, **keywords):
        yield np.roll(whole, len(whole) // 2)[share.start : share.start + share.count]


def some_rows_twice(*arguments, rows=Share.rows, **keywords):
    """A step's rows, of which the second takes the place of the first."""
    for own in rows(*arguments, **keywords):
        yield np.concatenate([own[1:2], own[1:]])


def rows_of_the_next_step(share, row_count, seed, first_step, stop=None, rows=Share.rows):
    return rows(share, row_count, seed, first_step + 1, None if stop is None else stop + 1)


def moved_weights(given, initial_weights=model.initial_weights):
    return {name: value + np.float32(0.001) for name, value in initial_weights(given).items()}


def with_changed_task(change: Callable[[task.Task], task.Task]) -> AbstractContextManager:
    """The strategy trains a changed task, and nobody else learns of it."""

    def begin(self, strategy, given, options, world, begin=Run.__init__):
        begin(self, strategy, change(given), options, world)

    return patch.object(Run, "__init__", begin)


def scale_rate(given: task.Task) -> task.Task:
    final = given.final_learning_rate
    return dataclasses.replace(
        given, learning_rate=2 * given.learning_rate, final_learning_rate=None if final is None else 2 * final
    )


def begin_schedule_one_step_late(given: task.Task) -> task.Task:
    """A linear decay that takes a step longer, from a rate that is a step further up."""
    fall = (given.learning_rate - (given.final_learning_rate or given.learning_rate)) / given.decay_steps
    return dataclasses.replace(given, learning_rate=given.learning_rate + fall, decay_steps=given.decay_steps + 1)


def read_without_momentum(*arguments, read=run.read_checkpoint):
    found = read(*arguments)
    lost = {name: value * (not name.endswith(".momentum")) for name, value in found.state.items()}
    return dataclasses.replace(found, state=lost)


def begin_apart(self, strategy, given, options, world, begin=Run.__init__):
    """Each rank begins with weights of its own, 0.001 from its neighbour's, until something makes them equal."""
    begin(self, strategy, given, options, world)
    moved = np.float32(0.001 * world.rank)
    self.initial_state = {name: value + moved for name, value in self.initial_state.items()}


start_apart = partial(patch.object, Run, "__init__", begin_apart)
"""A context in which each rank begins with weights of its own."""

CONTROLS = {
    "other_rows": partial(patch.object, Share, "rows", rows_of_the_next_step),
    "other_weights": partial(patch.object, model, "initial_weights", moved_weights),
    "scaled_rate": partial(with_changed_task, scale_rate),
    "late_schedule": partial(with_changed_task, begin_schedule_one_step_late),
    "lost_momentum": partial(patch.object, run, "read_checkpoint", read_without_momentum),
    "whole_batch": partial(patch.object, run, "share_of", whole_batch_for_each_of_two_workers),
    "another_shard": partial(patch.object, Share, "rows", shard_of_the_other_worker),
    "rows_twice": partial(patch.object, Share, "rows", some_rows_twice),
    "apart_then_broadcast": start_apart,
}


@contextmanager
def apart_with(context: AbstractContextManager) -> Iterator[None]:
    """Each rank begins with weights of its own, in a context without what makes them equal."""
    with start_apart(), context:
        yield
