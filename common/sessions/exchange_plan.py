"""Which launches a session of exchanges makes: traces, rounds of steps and of replays, rounds at batches that may pay.

What comes later depends on what came before: a replay sends what a trace has seen, and a batch is tried where, by the
account of the rounds, synchronous SGD would begin to pay.
"""

import dataclasses
import math
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas

from common.contract import dataset
from common.contract.task import PRESETS, Task
from common.declarations import catalogue
from common.declarations.strategy import Strategy, has_exchange
from common.declarations.sweep import Sweep
from common.errors import UserError
from common.launching.planned import PlannedLaunch, PlannedSweep
from common.records import metrics
from common.records.collectives import Replayed
from common.records.files import read_record
from common.records.trace import FIRST_STEP, STEPS, read_trace, trace_path
from common.records.training import Record
from common.sessions import comparison_plan
from common.sessions.session import Stage

TRIED = (1, 2)
"""Multiples of the batch from which on it would pay, at which it is tried: the first only breaks even, twice tells."""

_FEWEST_WARMUP_STEPS = 3
"""The first step compiles, and what frameworks settle after that isn't to be clocked either."""

_WINDOW_STEPS = 10


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What a session covers; every option narrows or widens its profile."""

    profile: Literal["quick", "full"] = "quick"
    """quick: the strategies that the quick profile of a comparison has, 6 rounds, about 15 minutes. full: hours; every
    strategy, 10 rounds."""
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
        if self.preset not in PRESETS:
            raise UserError(f"There is no preset named '{self.preset}': choose from {', '.join(PRESETS)}.")
        if self.workers < 2:
            raise UserError(f"--workers {self.workers}: an exchange needs two at least; give 2 or more.")
        if min(self.iterations, self.rounds) < 1:
            raise UserError("--iterations and --repetitions take whole numbers above 0.")

    @property
    def rounds(self) -> int:
        """How many rounds it makes."""
        return (6 if self.profile == "quick" else 10) if self.repetitions is None else self.repetitions

    def chosen(self) -> list[Strategy]:
        """The strategies, without their bases, in their declared order."""
        return [
            strategy
            for strategy in catalogue.strategies().values()
            if strategy.most_workers != 1
            and (strategy.name in self.strategies if self.strategies else strategy.quick or self.profile == "full")
        ]


@dataclass(frozen=True)
class Planned:
    """One launch of a session."""

    folder: Literal["", "traces", "replays"]
    """Where its record lies, within that of the session: strategies' lie there as in a comparison's."""
    launch: PlannedLaunch | PlannedSweep

    @property
    def name(self) -> str:
        """Unique in a session: the path of its record, without the suffix."""
        return f"{self.folder}/{self.launch.name}".lstrip("/")


def stages(scope: Scope, seed: int, folder: Path) -> Iterator[Stage[Planned]]:
    """The stages of a session, each once the one before has been made, in an order that the seed shuffles."""
    order = random.Random(seed)
    yield Stage("traces", "traces", [Planned("traces", traced(scope, strategy)) for strategy in scope.chosen()])
    for number in range(1, scope.rounds + 1):
        steps = whole_steps(scope, number)
        replays = [*filter(None, (replay(scope, step, folder) for step in steps if has_exchange(step.options)))]
        yield _round(f"round {number} of {scope.rounds}", steps, replays, order)
    batches = [each for strategy in scope.chosen() for each in worth_trying(scope, strategy, folder)]
    for number in range(1, scope.rounds + 1 if batches else 1):
        steps = [each for strategy, batch in batches for each in at_batch(scope, strategy, batch, number)]
        # Of two strategies that are tried at the same batch the base is the same.
        steps = [*{each.name: each for each in steps}.values()]
        yield _round(f"larger batches, round {number} of {scope.rounds}", steps, [], order)


def steps_table(stages: Sequence[Stage[Planned]], order_seed: int) -> pandas.DataFrame:
    """The plan as the report reads it: the steps of every round, as a comparison's."""
    rounds = [
        Stage(stage.name, stage.title, [each.launch for each in stage.launches if each.folder == ""])
        for stage in stages
        if stage.name == "round"
    ]
    return comparison_plan.plan_table(rounds, order_seed, comparison_plan.MARGIN)


def traced(scope: Scope, strategy: Strategy) -> PlannedLaunch:
    """The launch in which the tracer sees the strategy's messages."""
    steps = FIRST_STEP + STEPS + 2 * _WINDOW_STEPS
    task = dataclasses.replace(
        PRESETS[scope.preset],
        scaling="weak",
        workers=scope.workers,
        deadline_seconds=180.0,
        steps=steps,
        warmup_steps=FIRST_STEP,
        window_steps=_WINDOW_STEPS,
    )
    options = strategy.options(**strategy.family.traced_with)
    return PlannedLaunch(strategy, scope.workers, "throughput", 0, task, options)


def whole_steps(scope: Scope, repetition: int) -> list[PlannedLaunch]:
    """The launches of a round that tell the step of every strategy, with exchange and without, and of its base."""
    strategies = scope.chosen()
    names = dict.fromkeys(name for each in strategies for name in (each.base, each.name) if name)
    compared = comparison_plan.Scope(strategies=(*names,), workers=(scope.workers,), preset=(scope.preset,))
    return [
        launch
        for strategy, size in comparison_plan.worlds(compared)
        for launch in comparison_plan.throughput(compared, strategy, size, repetition)
    ]


def replay(scope: Scope, step: PlannedLaunch, folder: Path) -> Planned | None:
    """The launch that sends alone what this one sends in a step; None where there is no trace of its strategy."""
    path = trace_path(folder.resolve() / "traces" / f"{traced(scope, step.strategy).name}.json")
    if not path.exists():
        return None
    trace = read_trace(path)
    sweep = Sweep(messages=path, data_type=trace.data_type, workers=trace.workers, iterations=scope.iterations)
    replayed = Replayed(
        strategy=step.strategy.name,
        launch=step.name,
        source=trace.source,
        under_way_seconds=trace.under_way_seconds,
    )
    launch = PlannedSweep(catalogue.find_library(trace.library), sweep, step.repetition, replayed=replayed)
    return Planned("replays", launch)


def worth_trying(scope: Scope, strategy: Strategy, folder: Path) -> list[tuple[Strategy, int]]:
    """The batches, in rows per worker, at which it is tried whether synchronous SGD pays.

    None where it pays as it is, where by the account no batch is large enough, where all workers together would need
    more rows than there are, and for what isn't synchronous.
    """
    if not strategy.is_synchronous(strategy.options()):
        return []
    account = [_account(scope, strategy, number, folder) for number in range(1, scope.rounds + 1)]
    known = [each for each in account if each is not None]
    if not known:
        return []
    base_seconds = statistics.median(base for base, _, _ in known)
    contention = statistics.median(alone / base for base, _, alone in known)
    exchange_seconds = statistics.median(step - alone for _, step, alone in known)
    batch = PRESETS[scope.preset].batch
    fewest = metrics.fewest_batch(batch, scope.workers, base_seconds, contention, exchange_seconds)
    rows = len(dataset.load(PRESETS[scope.preset]).train_labels)
    if not batch < fewest < math.inf:
        return []
    tried = [_two_digits(factor * fewest) for factor in TRIED]
    return [(strategy, each) for each in tried if each * scope.workers <= rows]


def at_batch(scope: Scope, strategy: Strategy, batch: int, repetition: int) -> list[PlannedLaunch]:
    """The strategy and its base with so many rows per worker, with so many fewer steps."""
    base = catalogue.find(str(strategy.base))
    task = with_batch(dataclasses.replace(PRESETS[scope.preset], scaling="weak", deadline_seconds=180.0), batch)
    return [
        PlannedLaunch(
            each, workers, "throughput", repetition, dataclasses.replace(task, workers=workers), each.options()
        )
        for each, workers in ((base, 1), (strategy, scope.workers))
    ]


def with_batch(task: Task, batch: int) -> Task:
    """`task` with another batch and as many windows, in which about as many rows are trained on."""
    share = task.batch / batch
    windows = (task.steps - task.warmup_steps) // task.window_steps
    window_steps = max(1, math.ceil(task.window_steps * share))
    warmup_steps = max(_FEWEST_WARMUP_STEPS, math.ceil(task.warmup_steps * share))
    steps = warmup_steps + windows * window_steps
    return dataclasses.replace(task, batch=batch, window_steps=window_steps, warmup_steps=warmup_steps, steps=steps)


def _round(
    title: str, steps: Sequence[PlannedLaunch], replays: Sequence[Planned], order: random.Random
) -> Stage[Planned]:
    launches = [*(Planned("", each) for each in steps), *replays]
    order.shuffle(launches)
    return Stage("round", title, launches)


def _account(scope: Scope, strategy: Strategy, repetition: int, folder: Path) -> tuple[float, float, float] | None:
    """Seconds per step in a round: of the base, of the strategy, and of it without exchange; None where one lacks."""
    found: dict[str, float] = {}
    for launch in whole_steps(scope, repetition):
        if launch.strategy.name not in (strategy.base, strategy.name):
            continue
        record = read_record(folder / f"{launch.name}.json", Record)
        if record.status == "ok":
            kind = "base" if launch.strategy is not strategy else "step" if has_exchange(launch.options) else "alone"
            found[kind] = metrics.throughput(record).seconds_per_step
    return (found["base"], found["step"], found["alone"]) if len(found) == 3 else None


def _two_digits(count: float) -> int:
    """The next whole number of two significant digits: an extrapolation has no more."""
    unit = 10 ** max(0, math.floor(math.log10(count)) - 1)
    return math.ceil(count / unit) * unit
