"""What a comparison launches next, so that it answers its question in the time that it has.

The question is which strategies are faster. Rounds of what tells them apart come first, of as many strategies as get
enough rounds; then the certificates, smaller worlds, and crowded ones, which show that it works, not how it scales. How
long launches take is learned from this comparison's own.
"""

import itertools
import math
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from common.declarations.strategy import Strategy
from common.launching.planned import PlannedLaunch
from common.sessions.comparison_plan import Scope, Stage, certificates, main_worlds, throughput, whole_round, worlds
from common.statistics.intervals import FEWEST_LAUNCHES

REPORT_LAUNCHES = 1.5
"""How many typical launches of this comparison the report takes as long as, on machines of any speed."""

MORE = "more rounds"
"""The title of stages that repeat what has been measured."""

LATENESS = 0.05
"""By this share of its time a comparison may be late before it gives up a strategy that it has begun to measure."""


@dataclass
class Durations:
    """How long the launches of this comparison took, from the end of the one before, and how they ended."""

    seconds: dict[str, float] = field(default_factory=dict)
    """By launch, in the order in which they were made."""
    launches: dict[str, PlannedLaunch] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    """Strategies of which a launch that tells the speed didn't end well."""
    probes: float = 0.0
    """Seconds of the probes of the frameworks' ceilings, which aren't launches of the plan."""

    def add(self, launch: PlannedLaunch, seconds: float, ok: bool) -> None:
        """Note a launch that has ended."""
        self.seconds[launch.name], self.launches[launch.name] = seconds, launch
        if not ok and launch.purpose == "throughput":
            self.failed.add(launch.strategy.name)

    def spent(self) -> float:
        """Seconds of all launches, and of the probes."""
        return sum(self.seconds.values()) + self.probes

    def report(self) -> float:
        """Seconds that the report is expected to take."""
        return REPORT_LAUNCHES * self.typical()

    def typical(self) -> float:
        """Seconds of a typical launch; 0 before anything is known."""
        return statistics.median(self.seconds.values()) if self.seconds else 0.0

    def expected(self, launches: Sequence[PlannedLaunch]) -> float:
        """Seconds that these launches are expected to take in all; 0 before anything is known."""
        return sum(self._expected(launch) for launch in launches)

    def _expected(self, launch: PlannedLaunch) -> float:
        """The mean of the launches that are the most like this one; more workers take longer in proportion."""
        for likeness in _LIKENESSES:
            alike = {name: known for name, known in self.launches.items() if likeness(known) == likeness(launch)}
            if alike:
                grown = [self.seconds[name] * max(1.0, launch.workers / known.workers) for name, known in alike.items()]
                return statistics.mean(grown)
        return 0.0


_LIKENESSES = (
    lambda launch: (launch.strategy.name, launch.purpose, launch.task.preset, _size(launch), launch.options),
    lambda launch: (launch.strategy.name, launch.purpose, _size(launch)),
    lambda launch: (launch.strategy.name, launch.workers),
    lambda launch: launch.strategy.name,
    lambda launch: None,
)
"""What launches have in common that are taken to last as long as one another, the closest kind first."""


def _size(launch: PlannedLaunch) -> tuple[object, ...]:
    return launch.workers, launch.hosts, launch.bandwidth_bits_per_second


def stages(
    scope: Scope,
    order: random.Random,
    seeds: dict[str, int],
    durations: Durations,
    left_out: dict[str, float],
    probe: Callable[[], None] = lambda: None,
) -> Iterator[Stage]:
    """The launches of a comparison, stage by stage.

    Whoever iterates makes a stage's launches and notes them in `durations` before asking for the next stage, since what
    comes next rests on how long they took. Strategies that the time doesn't suffice for are noted in `left_out`, with
    the minutes that the comparison would need to have each. `probe` is called once, after the first round, and notes
    how long it took as well.

    Without a limit there are as many rounds of everything as the scope says. Within one:

    - the first round: the undistributed bases, and of each strategy its largest world with a core for each process,
      with exchange and without; it stops where the time is up;
    - rounds 2 to 6 of the bases and of as many strategies, in declared order, as fit with their certificates; one whose
      launch failed isn't tried again;
    - their certificates; then smaller worlds, crowded ones, and more rounds, each where it fits.
    """
    if scope.limit_seconds is None:
        for repetition in range(1, scope.rounds + 1):
            yield whole_round(scope, repetition, order, seeds)
            if repetition == 1:
                probe()
        return
    measured = yield from _first_round(scope, order, durations)
    probe()
    kept = measured
    for repetition in range(2, FEWEST_LAUNCHES + 1):
        late = 0.0 if repetition == 2 else LATENESS
        kept = _affordable(scope, kept, repetition, seeds, durations, left_out, late)
        if not kept:
            break
        yield _round(scope, kept, repetition, order, f"round {repetition} of {FEWEST_LAUNCHES}")
    # With time for no strategy's rounds there may still be some for what shows that it works.
    shown = [each.name for each in kept or measured]
    yield from _certified(scope, shown, order, seeds, durations)
    block = FEWEST_LAUNCHES + 1
    yield from _other_worlds(scope, shown, block, seeds, durations)
    for repetition in itertools.count(block + 1) if kept else ():
        more = _larger_round(scope, kept, repetition, order, durations)
        if not more:
            return
        yield more


def _first_round(scope: Scope, order: random.Random, durations: Durations) -> Iterator[Stage]:
    """Launch by launch; returns the strategies that were measured, bases first, in declared order."""
    launches = [each for strategy in _in_order(scope) for each in _main(scope, strategy, 1)]
    order.shuffle(launches)
    for launch in launches:
        if not _fits(scope, [launch], durations):
            break
        yield Stage("round", f"round 1 of {FEWEST_LAUNCHES}", [launch])
    return [
        strategy
        for strategy in _in_order(scope)
        if strategy.name not in durations.failed
        and all(launch.name in durations.seconds for launch in _main(scope, strategy, 1))
    ]


def _affordable(
    scope: Scope,
    candidates: list[Strategy],
    repetition: int,
    seeds: dict[str, int],
    durations: Durations,
    left_out: dict[str, float],
    late: float,
) -> list[Strategy]:
    """Of `candidates` those that fit from this round on; the others of the scope are noted in `left_out`."""
    limit = scope.limit_seconds * (1 + late)
    rounds = FEWEST_LAUNCHES + 1 - repetition
    seconds = needed = durations.spent() + durations.report()
    kept = []
    for strategy in _in_order(scope):
        if strategy.name in durations.failed or (strategy.name in left_out and repetition > 2):
            continue
        certified = certificates(scope, strategy, main_worlds(scope)[strategy.name], seeds)
        cost = rounds * durations.expected(_main(scope, strategy, repetition)) + durations.expected(certified)
        needed += cost
        if strategy in candidates and seconds + cost <= limit:
            seconds += cost
            kept.append(strategy)
        else:
            left_out[strategy.name] = math.ceil(needed / 6) / 10
    return kept


def _round(scope: Scope, kept: list[Strategy], repetition: int, order: random.Random, title: str) -> Stage:
    launches = [launch for strategy in kept for launch in _main(scope, strategy, repetition)]
    order.shuffle(launches)
    return Stage("round", title, launches)


def _certified(
    scope: Scope, names: list[str], order: random.Random, seeds: dict[str, int], durations: Durations
) -> Iterator[Stage]:
    """The certificates of the worlds that the rounds have, each where it fits."""
    main = main_worlds(scope)
    launches = [
        launch
        for strategy, size in worlds(scope)
        if strategy.name in names and size == main[strategy.name]
        for launch in certificates(scope, strategy, size, seeds)
    ]
    order.shuffle(launches)
    for launch in launches:
        if _fits(scope, [launch], durations):
            yield Stage("certificates", "certificates", [launch])


def _other_worlds(
    scope: Scope, names: list[str], repetition: int, seeds: dict[str, int], durations: Durations
) -> Iterator[Stage]:
    """Smaller worlds of these strategies, then crowded ones of all that can have no other, each where it fits."""
    main = main_worlds(scope)
    others = [(strategy, size) for strategy, size in worlds(scope) if size != main.get(strategy.name)]
    smaller = [(each, size) for each, size in others if each.name in main and size[:2] <= main[each.name][:2]]
    crowded = [world for world in others if world not in smaller]
    for title, found in (("smaller worlds", smaller), ("crowded worlds", crowded)):
        for strategy, size in sorted(found, key=lambda world: world[1][:2]):
            wanted = strategy.name in names or strategy.name not in main
            launches = throughput(scope, strategy, size, repetition, alone=False)
            launches += certificates(scope, strategy, size, seeds)
            if wanted and strategy.name not in durations.failed and _fits(scope, launches, durations):
                yield Stage(title, title, launches)


def _larger_round(
    scope: Scope, kept: list[Strategy], repetition: int, order: random.Random, durations: Durations
) -> Stage | None:
    """One more round of all worlds, or else of those of every round, where one of both fits."""
    usual = _round(scope, kept, repetition, order, MORE)
    main, names = main_worlds(scope), {strategy.name for strategy in kept}
    others = [
        launch
        for strategy, size in worlds(scope)
        if strategy.name in names and size != main[strategy.name]
        for launch in throughput(scope, strategy, size, repetition, alone=False)
    ]
    whole = [*usual.launches, *others]
    order.shuffle(whole)
    for launches in (whole, usual.launches):
        if _fits(scope, launches, durations):
            return Stage("round", MORE, launches)
    return None


def _in_order(scope: Scope) -> list[Strategy]:
    """The strategies that rounds have: the bases, which every speed-up needs, then the others in declared order."""
    main = main_worlds(scope)
    known = {strategy.name: strategy for strategy, _ in worlds(scope) if strategy.name in main}
    return sorted(known.values(), key=lambda strategy: strategy.base is not None)


def _main(scope: Scope, strategy: Strategy, repetition: int) -> list[PlannedLaunch]:
    return throughput(scope, strategy, main_worlds(scope)[strategy.name], repetition)


def _fits(scope: Scope, launches: Sequence[PlannedLaunch], durations: Durations) -> bool:
    return durations.spent() + durations.expected(launches) + durations.report() <= scope.limit_seconds
