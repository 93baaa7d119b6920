"""Prepare rows ahead by processes of a DataLoader, and tell from which batch on that trains faster (five minutes)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product

import pandas as pd

from common.contract.dataset import preset_task
from common.declarations import catalogue
from common.errors import UserError, exit_with_one_line
from common.launching.planned import PlannedLaunch
from common.observations.display import Display, Measure, Series
from common.observations.table import Missing, Observation
from common.records.metrics import throughput
from common.records.training import Record
from common.sessions.experiment import Experiment, in_rounds, run

LAUNCHES = "first_base"
_NAME = "{} loader workers"


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What a session measures."""

    strategy: str = field(default_factory=lambda: catalogue.first_base().name)
    """What trains."""
    preset: str = "mnist_5k"
    """What is trained, under weak scaling."""
    workers: int = 1
    """Workers of the strategy."""
    loader_workers: tuple[int, ...] = (1, 2)
    """Numbers of processes that prepare a worker's rows; beside them rows come from memory."""
    batch: tuple[int, ...] = (16, 64, 256)
    """Rows per worker."""
    repetitions: int = 6
    """How often everything is launched; with fewer than 6 nothing is told for sure."""

    def __post_init__(self) -> None:
        """Raises UserError for a strategy without loaders, a preset or a number that can't be had."""
        preset_task(self.preset)
        if not hasattr(catalogue.find(self.strategy).options(), "loader_workers"):
            raise UserError(f"{self.strategy} has no --loader-workers: name another strategy.")
        if min(*self.loader_workers, *self.batch, self.workers) < 1:
            raise UserError("Give whole numbers above 0: rows from memory are measured anyway.")


def launches(scope: Scope, repetition: int) -> Iterator[PlannedLaunch]:
    """Every batch, with rows from memory and with each number of loaders."""
    strategy, workers = catalogue.find(scope.strategy), scope.workers
    task = replace(preset_task(scope.preset), scaling="weak", workers=workers)
    for batch, loaders in product(scope.batch, (0, *scope.loader_workers)):
        options = strategy.options(**{"loader_workers": loaders})
        yield PlannedLaunch(strategy, workers, "throughput", repetition, replace(task, batch=batch), options)


def observe(launch: str, record: Record) -> Iterator[Observation | Missing]:
    """Seconds of a step, and for how long rank 0 waits for its rows in it."""
    series, number = _NAME.format(record.options["loader_workers"]), int(launch.rpartition("-")[2])
    world, rows = f"workers: {record.world_size}, {record.strategy} on {record.task.preset}", record.task.batch
    if record.status != "ok":
        yield Missing(world=world, x=rows, series=series, round=number, status=record.status, reason=str(record.reason))
        return
    row = partial(Observation, world=world, x=rows, series=series, round=number, launch=launch)
    waits = [each.input_seconds / each.steps for each in record.windows if each.input_seconds is not None]
    yield row(measure="seconds", value=throughput(record).seconds_per_step, oversubscribed=record.oversubscribed)
    yield row(measure="input_seconds", value=float(pd.Series(waits).median()))


def show(records: Sequence[Record], observed: pd.DataFrame) -> Display:
    """Each number of loaders beside rows from memory."""
    names = sorted({_NAME.format(record.options["loader_workers"]) for record in records})
    waiting = Measure(name="input_seconds", label="of it waiting, ms", factor=1e3, meaning="of rank 0 for its rows")
    return Display(
        title="Rows prepared ahead: from which batch on it pays",
        contender="rows",
        x="rows per worker",
        series=[Series(name=name, base=_NAME.format(0) if name != _NAME.format(0) else "") for name in names],
        measures=[Measure(name="seconds", label="step, ms", factor=1e3), waiting],
        method=["A loader prepares batches while the worker trains, and hands them over in shared memory."],
    )


EXPERIMENT = Experiment(
    name="loader_workers",
    about=__doc__ or "",
    scope=Scope,
    record=Record,
    stages=in_rounds(launches),
    observe=observe,
    show=show,
)


if __name__ == "__main__":
    exit_with_one_line(partial(run, EXPERIMENT))
