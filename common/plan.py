"""Which launches a comparison makes, in which order, and how long they will take."""

import dataclasses
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pandas

from common import catalogue
from common.contract import oracle
from common.contract.rows import global_batch
from common.contract.task import PRESETS, Task
from common.errors import UserError
from common.measurement.intervals import FEWEST_LAUNCHES
from common.strategy import ExchangeOptions, Options, Strategy, Work, has_exchange, label

FULL_REPETITIONS = 10
"""Launches of each kind in the full profile: the fewest that a speed claim may rest on."""

QUICK_SECONDS = 540.0
"""The quick profile starts no round that wouldn't end within this time; set-up checks and report come on top."""

ASYNCHRONOUS_STEPS = 1000
"""Steps of an asynchronous certificate of several workers: enough for a loss that tells how well it trained."""

# Rough figures seen on two cores: one worker's step by preset, and what exchange adds to it.
_STEP_SECONDS = {"digits": 0.0004, "mnist": 0.001, "pathway": 0.0015, "wide": 0.25}
_EXCHANGE_SECONDS = {"digits": 0.0015, "mnist": 0.0015, "pathway": 0.003, "wide": 0.05}


@dataclass(frozen=True)
class Scope:
    """What a comparison covers; every option narrows or widens its profile."""

    profile: Literal["quick", "full"] = "quick"
    """quick: minutes; the core strategies, weak scaling on pathway, the certificate and the accuracy on digits; six
    launches of the largest worlds that have a core for each worker, fewer of the others. full: hours; every strategy,
    weak and strong, three regimes, 10 launches of each kind."""
    strategies: tuple[str, ...] = ()
    """Only these strategies; none named: the profile's."""
    workers: tuple[int, ...] = (1, 2, 4)
    """Numbers of workers to start."""
    preset: tuple[str, ...] = ()
    """Measure throughput on these presets; none named: the profile's."""
    repetitions: int | None = None
    """Launches of each kind that tells the speed; none: 10 (full), or as many as fit into the time (quick)."""

    def __post_init__(self) -> None:
        """Raises UserError for a strategy, a preset or a number that doesn't exist."""
        for name in self.strategies:
            catalogue.find(name)
        for name in self.preset:
            if name not in PRESETS:
                raise UserError(f"There is no preset named '{name}': choose from {', '.join(PRESETS)}.")
        counts = [*self.workers, 1 if self.repetitions is None else self.repetitions]
        if not self.workers or min(counts) < 1:
            raise UserError("--workers and --repetitions take whole numbers above 0.")


@dataclass(frozen=True)
class PlannedLaunch:
    """One launch of the plan. Its name is that of its record, its log and its weights."""

    strategy: Strategy
    workers: int
    purpose: Literal["certificate", "throughput"]
    repetition: int
    task: Task
    options: Options

    @property
    def name(self) -> str:
        """Unique in a comparison, and readable in a list of files."""
        details = [words.replace(" ", "_") for words in label(self.options).split(", ") if words]
        details += [] if has_exchange(self.options) else ["no_exchange"]
        last = "certificate" if self.purpose == "certificate" else f"{self.repetition:02d}"
        world = [self.strategy.name, self.task.preset, self.task.scaling, f"{self.workers}w"]
        return "-".join([*world, *details, last])

    @property
    def estimated_seconds(self) -> float:
        """About how long the launch takes on two cores, from its start to its record."""
        launcher = self.strategy.launcher
        start = launcher.start_seconds + launcher.start_seconds_per_worker * self.workers
        return start + self.task.steps * _step_seconds(self)


def plan_round(scope: Scope, repetition: int, order: random.Random, seeds: dict[str, int]) -> list[PlannedLaunch]:
    """The launches of one repetition, shuffled across frameworks; the first one holds the certificate as well.

    Rounds make blocks: whatever a round has of a number of workers, it has of every strategy, once, so a machine that
    slows down slows all of them. `seeds` are the seeds without a kink, by preset, that the certificate trains with.

    In the full profile, and with `repetitions`, every round has every launch. In the quick one, starting processes
    takes most of the time, and six rounds of everything don't fit into ten minutes. The launches that decide between
    strategies are repeated most often:

    - every round: the undistributed bases, and the largest worlds in which each worker has a core of its own;
    - rounds 1 and 4: smaller worlds, which serve as a base of the larger ones;
    - round 1: the certificate of every world (of asynchronous ones with several workers, that of those largest worlds);
      those without exchange; and worlds with more workers than cores, whose numbers show that it works, not how it
      scales;
    - rounds after the sixth, where strategies are few or the machine is fast: every launch.
    """
    launches = []
    for strategy, workers in _worlds(scope):
        if repetition == 1:
            for preset in certified_presets(scope):
                certificates = _certificates(scope, strategy, workers, preset, seeds[preset])
                launches += [launch for launch in certificates if _is_certified(scope, launch)]
        launches += [each for each in _for_throughput(scope, strategy, workers, repetition) if _is_due(scope, each)]
    order.shuffle(launches)
    return launches


def has_another_round(scope: Scope, repetition: int, seconds: float, round_seconds: float) -> bool:
    """Whether this repetition is to run: up to the number asked for, else the profile's, else as time allows.

    `seconds` have gone by, and the round would take `round_seconds`.
    """
    if scope.repetitions or scope.profile == "full":
        return repetition <= (scope.repetitions or FULL_REPETITIONS)
    return repetition == 1 or seconds + round_seconds <= QUICK_SECONDS


def certified_presets(scope: Scope) -> tuple[str, ...]:
    """Presets on which every strategy is held against the oracle."""
    return ("digits",) if scope.profile == "quick" else ("digits", "pathway")


def kink_free_seeds(scope: Scope) -> dict[str, int]:
    """The certificate's seed for each of its presets; takes a second or two of NumPy."""
    tasks = {preset: _certificate_task(preset, 1, 0) for preset in certified_presets(scope)}
    return {preset: oracle.certificate_task(task, [task.batch]).seed for preset, task in tasks.items()}


def plan_table(launches: list[PlannedLaunch], order_seed: int) -> pandas.DataFrame:
    """The plan as the report reads it: one row per planned launch, in their order."""
    rows = [
        {
            "position": position,
            "launch": launch.name,
            "strategy": launch.strategy.name,
            "label": label(launch.options),
            "preset": launch.task.preset,
            "scaling": launch.task.scaling,
            "workers": launch.workers,
            "exchange": has_exchange(launch.options),
            "repetition": launch.repetition,
            "purpose": launch.purpose,
            "order_seed": order_seed,
        }
        for position, launch in enumerate(launches, start=1)
    ]
    return pandas.DataFrame(rows)


def with_long_windows(task: Task) -> Task:
    """`task` with three windows, four times as long as its own: what asynchronous throughput is measured with.

    A window ends when all of its updates are applied, so the workers run dry there; in short windows that would be a
    large part of the time.
    """
    window_steps = 4 * task.window_steps
    return dataclasses.replace(task, window_steps=window_steps, steps=task.warmup_steps + 3 * window_steps)


def _step_seconds(launch: PlannedLaunch) -> float:
    task, workers, work = launch.task, launch.workers, launch.strategy.work
    busy = min(workers, 2)
    compute = _STEP_SECONDS[task.preset]
    exchange = _EXCHANGE_SECONDS[task.preset] * has_exchange(launch.options)
    synchronous = launch.strategy.is_synchronous(launch.options)
    if not synchronous:
        return compute / busy + 1.5 * _EXCHANGE_SECONDS[task.preset]
    try:
        shares = max(global_batch(task, work, workers) / PRESETS[task.preset].batch / busy, 0.5)
    except UserError:
        # The launch will be refused with this very sentence, before its first step.
        return 0.0
    if work in (Work.UNDISTRIBUTED, Work.REPLICAS_IN_ONE_PROCESS):
        return compute * shares
    if work is Work.COORDINATED:
        return compute * shares + 2 * workers * exchange
    # Seen with more workers than cores: they also wait for their turn on a core.
    crowded = workers / busy
    return compute * shares + (workers - 1) * crowded * exchange


def _worlds(scope: Scope) -> list[tuple[Strategy, int]]:
    """Every strategy with every number of workers that it can have."""
    known = catalogue.strategies()
    of_profile = [name for name, strategy in known.items() if strategy.quick or scope.profile == "full"]
    worlds = []
    for name in scope.strategies or of_profile:
        counts = {1} if known[name].most_workers == 1 else set(scope.workers)
        worlds += [(known[name], workers) for workers in sorted(counts)]
    return worlds


def _is_certified(scope: Scope, launch: PlannedLaunch) -> bool:
    """Whether the profile has this certificate, as `plan_round` says."""
    if scope.profile == "full" or launch.strategy.is_synchronous(launch.options):
        return True
    return launch.workers in (1, _largest_without_crowding(scope))


def _largest_without_crowding(scope: Scope) -> int:
    """The largest number of workers asked for that the machine has cores for; the smallest one if it has for none."""
    counts = sorted(scope.workers)
    return max((count for count in counts if count <= len(os.sched_getaffinity(0))), default=counts[0])


def _is_due(scope: Scope, launch: PlannedLaunch) -> bool:
    """Whether a round has this launch for the throughput, as `plan_round` says."""
    repetition = launch.repetition
    if scope.profile == "full" or scope.repetitions or repetition == 1 or repetition > FEWEST_LAUNCHES:
        return True
    main = _largest_without_crowding(scope)
    if not has_exchange(launch.options) or launch.workers > main:
        return False
    return launch.strategy.most_workers == 1 or launch.workers == main or repetition == 4


def _for_throughput(scope: Scope, strategy: Strategy, workers: int, repetition: int) -> Iterator[PlannedLaunch]:
    """Every launch that tells the speed of so many workers, those among them that will be refused."""
    full = scope.profile == "full"
    for preset in scope.preset or (("digits", "pathway", "wide") if full else ("pathway",)):
        for scaling in ("weak", "strong") if full else ("weak",):
            task = dataclasses.replace(PRESETS[preset], scaling=scaling, workers=workers, deadline_seconds=180.0)
            variants = [strategy.options(**values) for values in ({}, *(strategy.variants if full else ()))]
            # T_comp, the same program without gradient exchange, wherever there is somebody to exchange with.
            compared = full or workers == _largest_without_crowding(scope)
            if workers > 1 and compared and issubclass(strategy.options, ExchangeOptions):
                variants += [dataclasses.replace(variant, exchange=False) for variant in variants]
            for options in variants:
                clocked = task if strategy.is_synchronous(options) else with_long_windows(task)
                yield PlannedLaunch(strategy, workers, "throughput", repetition, clocked, options)


def _certificates(scope: Scope, strategy: Strategy, workers: int, preset: str, seed: int) -> list[PlannedLaunch]:
    """A launch of each variant; of a strategy that is asynchronous by default a synchronous one and one as it is."""
    task = _certificate_task(preset, workers, seed)
    variants = [strategy.options(**values) for values in ({}, *(strategy.variants if scope.profile == "full" else ()))]
    if not strategy.is_synchronous(variants[0]):
        synchronous = strategy.options(**strategy.synchronous_with)
        longer = task
        if workers > 1:
            longer = dataclasses.replace(task, steps=ASYNCHRONOUS_STEPS, checkpoint_steps=50)
        return [
            PlannedLaunch(strategy, workers, "certificate", 1, task, synchronous),
            PlannedLaunch(strategy, workers, "certificate", 1, longer, variants[0]),
        ]
    return [PlannedLaunch(strategy, workers, "certificate", 1, task, options) for options in variants]


def _certificate_task(preset: str, workers: int, seed: int) -> Task:
    return dataclasses.replace(
        PRESETS[preset],
        scaling="strong",
        workers=workers,
        seed=seed,
        steps=300 if preset == "digits" else 120,
        checkpoint_steps=25,
        deadline_seconds=180.0,
        checkpoint=Path("weights.safetensors"),
    )
