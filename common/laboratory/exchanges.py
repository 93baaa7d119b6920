"""Replay strategies' exchanges alone, beside their whole steps, and try from which batch on they pay (15 min).

To start it: `nox -s exchanges`, or `nox -s exchanges -- --profile full --workers 4`. An interrupted session goes on
where it stopped when it is started again with the same options.
"""

import dataclasses
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pandas as pd
from msgspec import structs

from common.contract import dataset
from common.contract.dataset import preset_task
from common.declarations import catalogue
from common.declarations.strategy import Strategy, has_exchange
from common.declarations.sweep import Sweep, Type
from common.errors import UserError, exit_with_one_line
from common.launching.executor import Executor, run_planned
from common.launching.planned import PlannedLaunch, PlannedSweep
from common.records import metrics
from common.records.certificate import trusted
from common.records.collective_times import CollectivesRecord, Replayed
from common.records.files import read_record, write_record
from common.records.header import Header
from common.records.trace import FIRST_STEP, STEPS, read_trace, trace_path
from common.records.training import Record
from common.sessions import comparison_scope
from common.sessions.experiment import Experiment, clocked_task, rounds_in, run
from common.sessions.session import Placed, Stage
from common.statistics.paired import MARGIN

TRIED = (1, 2)
"""Multiples of the batch from which on it would pay, at which it is tried: the first only breaks even, twice tells."""

TRACES, REPLAYS = "traces", "replays"
"""The folders of their records, below the session's, in which those of strategies' steps lie."""

_FEWEST_WARMUP_STEPS = 3
"""The first step compiles, and what frameworks settle after that isn't to be clocked either."""

_WINDOW_STEPS = 10

Planned = Placed[PlannedLaunch | PlannedSweep]


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What a session covers; every option narrows or widens its profile."""

    profile: Literal["quick", "full"] = "quick"
    """quick: the strategies that every quick comparison has, 6 rounds, about 15 minutes. full: hours; every strategy,
    10 rounds."""
    strategies: tuple[str, ...] = ()
    """Only these strategies; none named: the profile's. Their bases come with them."""
    workers: int = 2
    """Workers of each."""
    preset: str = "pathway"
    """What is trained, under weak scaling."""
    repetitions: int | None = None
    """Rounds; none: the profile's. With fewer than 6 nothing is told for sure."""
    iterations: int = 50
    """Timed calls of each replay, each of which sends all messages of a step."""

    def __post_init__(self) -> None:
        """Raises UserError for a strategy, a preset or a number that doesn't exist."""
        for name in self.strategies:
            if catalogue.find(name).most_workers == 1:
                raise UserError(f"{name} distributes nothing, so it has no exchange: leave it out.")
        preset_task(self.preset)
        if self.workers < 2:
            raise UserError(f"--workers {self.workers}: an exchange needs two at least; give 2 or more.")
        if self.iterations < 1:
            raise UserError(f"--iterations {self.iterations}: give a whole number above 0.")

    @property
    def chosen(self) -> list[Strategy]:
        """The strategies, without their bases, in their declared order."""
        return [
            strategy
            for strategy in catalogue.strategies().values()
            if strategy.most_workers != 1
            and (strategy.name in self.strategies if self.strategies else strategy.quick or self.profile == "full")
        ]


def stages(scope: Scope, seed: int, folder: Path) -> Iterator[Stage[Planned]]:
    """Traces, rounds of steps and of replays, and rounds at batches that may pay, in an order that the seed shuffles.

    What comes later depends on what came before: a replay sends what a trace has seen, and a batch is tried where, by
    the account of the rounds, synchronous SGD would begin to pay.
    """
    order, rounds = random.Random(seed), rounds_in(scope)
    yield Stage(TRACES, TRACES, [Placed(TRACES, traced(scope, strategy)) for strategy in scope.chosen])
    for number in range(1, rounds + 1):
        steps = whole_steps(scope, number)
        replays = [replay(scope, step, folder) for step in steps if has_exchange(step.options)]
        launches = [*(Planned("", step) for step in steps), *(Planned(REPLAYS, each) for each in replays if each)]
        yield _round(f"round {number} of {rounds}", launches, order)
    batches = [(strategy, batch) for strategy in scope.chosen for batch in batches_to_try(scope, strategy, folder)]
    for number in range(1, rounds + 1 if batches else 1):
        steps = [each for strategy, batch in batches for each in at_batch(scope, strategy, batch, number)]
        yield _round(f"larger batches, round {number} of {rounds}", [Planned("", each) for each in steps], order)


def _round(title: str, launches: Iterable[Planned], order: random.Random) -> Stage[Planned]:
    # Of two strategies that are tried at the same batch the base is the same.
    in_order = [*{each.name: each for each in launches}.values()]
    order.shuffle(in_order)
    return Stage("round", title, in_order)


def steps_table(stages: Sequence[Stage[Planned]], order_seed: int) -> pd.DataFrame:
    """The plan as the report reads it: the steps of every round, as a comparison's."""
    rounds = [each for each in stages if each.name == "round"]
    of_steps = [dataclasses.replace(each, launches=[placed.launch for placed in each.launches]) for each in rounds]
    return comparison_scope.plan_table(of_steps, order_seed, MARGIN)


def traced(scope: Scope, strategy: Strategy) -> PlannedLaunch:
    """The launch in which the tracer sees the strategy's messages."""
    batch, windows = preset_task(scope.preset).batch, math.ceil(STEPS / _WINDOW_STEPS) + 2
    task = clocked_task(scope.preset, scope.workers, batch, FIRST_STEP, _WINDOW_STEPS, windows)
    options = strategy.options(**strategy.family.traced_with)
    return PlannedLaunch(strategy, scope.workers, "throughput", 0, task, options, runner="tracer")


def whole_steps(scope: Scope, repetition: int) -> list[PlannedLaunch]:
    """The launches of a round that tell the step of every strategy, with exchange and without, and of its base."""
    names = dict.fromkeys(name for each in scope.chosen for name in (each.base, each.name) if name)
    compared = comparison_scope.Scope(strategies=(*names,), workers=(scope.workers,), preset=(scope.preset,))
    return [
        launch
        for strategy, size in comparison_scope.worlds(compared)
        for launch in comparison_scope.speed_launches(compared, strategy, size, repetition)
    ]


def replay(scope: Scope, step: PlannedLaunch, folder: Path) -> PlannedSweep | None:
    """The launch that sends alone what this one sends in a step; None where there is no trace of its strategy."""
    path = trace_path(folder.resolve() / TRACES / f"{traced(scope, step.strategy).name}.json")
    if not path.exists():
        return None
    trace = read_trace(path)
    sweep = Sweep(
        messages=path, data_type=cast(Type, trace.data_type), workers=trace.workers, iterations=scope.iterations
    )
    replayed = Replayed(
        strategy=step.strategy.name,
        launch=step.name,
        source=trace.source,
        under_way_seconds=trace.under_way_seconds,
    )
    return PlannedSweep(catalogue.find_library(trace.library), sweep, step.repetition, replayed=replayed)


def batches_to_try(scope: Scope, strategy: Strategy, folder: Path) -> list[int]:
    """The batches, in rows per worker, at which it is tried whether synchronous SGD pays.

    None where it pays as it is, where by the account no batch is large enough, where all workers together would need
    more rows than there are, and for what isn't synchronous.
    """
    if not strategy.is_synchronous(strategy.options()):
        return []
    base, step, t_comp = _seconds_per_step(scope, strategy, folder)
    if not base.size:
        return []
    medians = [float(np.median(each)) for each in (base, t_comp / base, step - t_comp)]
    batch = preset_task(scope.preset).batch
    fewest = metrics.fewest_batch(batch, scope.workers, *medians)
    if not batch < fewest < math.inf:
        return []
    rows = len(dataset.load(preset_task(scope.preset)).train_labels)
    # The next whole numbers of two significant digits: an extrapolation has no more.
    units = {factor: 10 ** max(0, math.floor(math.log10(factor * fewest)) - 1) for factor in TRIED}
    tried = [math.ceil(factor * fewest / unit) * unit for factor, unit in units.items()]
    return [each for each in tried if each * scope.workers <= rows]


def _seconds_per_step(scope: Scope, strategy: Strategy, folder: Path) -> np.ndarray:
    """Seconds of the base, of the whole step, and of it without exchange, (3, rounds), of rounds where all were ok."""
    of_strategy, numbers = dataclasses.replace(scope, strategies=(strategy.name,)), range(1, rounds_in(scope) + 1)
    launches = {launch.name: launch for number in numbers for launch in whole_steps(of_strategy, number)}
    paths = {name: folder / f"{name}.json" for name in launches}
    records = {name: read_record(path, Record) for name, path in paths.items() if path.exists()}
    rows: list[tuple[int, str, float]] = []
    for name, record in trusted(records, folder).items():
        if record.status == "ok":
            kind = ("step" if record.exchange else "t_comp") if record.strategy == strategy.name else "base"
            rows.append((launches[name].repetition, kind, metrics.throughput(record).seconds_per_step))
    seconds = pd.DataFrame(rows, columns=["round", "kind", "seconds"])
    by_round = seconds.pivot(index="round", columns="kind", values="seconds")
    return by_round.reindex(columns=["base", "step", "t_comp"]).dropna().to_numpy(float).T


def at_batch(scope: Scope, strategy: Strategy, batch: int, repetition: int) -> list[PlannedLaunch]:
    """The strategy and its base with so many rows per worker: as many windows, in which about as many rows are seen."""
    task = preset_task(scope.preset)
    share, windows = task.batch / batch, (task.steps - task.warmup_steps) // task.window_steps
    window_steps = max(1, math.ceil(task.window_steps * share))
    warmup_steps = max(_FEWEST_WARMUP_STEPS, math.ceil(task.warmup_steps * share))
    launches = list[PlannedLaunch]()
    for each, workers in ((catalogue.find(str(strategy.base)), 1), (strategy, scope.workers)):
        larger = clocked_task(scope.preset, workers, batch, warmup_steps, window_steps, windows)
        launches.append(PlannedLaunch(each, workers, "throughput", repetition, larger, each.options()))
    return launches


def make(planned: PlannedLaunch | PlannedSweep, folder: Path, hosts: Executor[Any]) -> Header:
    """Make one launch and return its record. A trace without messages has failed."""
    if not isinstance(planned, PlannedLaunch) or planned.runner != "tracer":
        return run_planned(planned, folder, hosts)
    path = folder / f"{planned.name}.json"
    trace_path(path).unlink(missing_ok=True)
    record = run_planned(planned, folder, hosts)
    if record.status == "ok" and not trace_path(path).exists():
        record = structs.replace(record, status="failed", reason="It left no messages.")
        write_record(path, record)
    return record


EXPERIMENT = Experiment(
    name="exchanges",
    about=__doc__ or "",
    scope=Scope,
    record=Record,
    records_below={TRACES: Record, REPLAYS: CollectivesRecord},
    stages=stages,
    plan_table=steps_table,
    make=make,
    gather=lambda folder, records: records,
    report="reports",
)


if __name__ == "__main__":
    exit_with_one_line(partial(run, EXPERIMENT))
