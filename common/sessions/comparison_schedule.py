"""What a comparison launches next, so that it answers its question in the time that it has.

The question is which strategies are faster. Rounds of what tells them apart come first, of as many strategies as get
enough rounds; then the certificates, smaller worlds, and oversubscribed ones, which show that it works, not how it
scales. How long launches take is learned from this comparison's own.
"""

import itertools
import math
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from common.declarations.strategy import Strategy, has_exchange
from common.launching.planned import PlannedLaunch
from common.records.ceiling import Ceiling
from common.records.training import Record
from common.sessions.comparison_scope import (
    Scope,
    certificate_launches,
    main_worlds,
    speed_launches,
    whole_round,
    worlds,
)
from common.sessions.probes import PlannedProbe
from common.sessions.session import Schedule, Stage
from common.statistics.intervals import FEWEST_LAUNCHES

REPORT_LAUNCHES = 1.5
"""The report takes as long as this many typical launches of the comparison, on machines of any speed."""

MORE = "more rounds"
"""The title of stages that repeat what has been measured."""

LATENESS = 0.05
"""A comparison may overrun its limit by this share before it drops a strategy."""


@dataclass
class Durations:
    """How long the launches of this comparison took, from the end of the one before, and how they ended."""

    seconds: dict[str, float] = field(default_factory=dict[str, float])
    """By launch, in the order in which they were made."""
    launches: dict[str, PlannedLaunch] = field(default_factory=dict[str, PlannedLaunch])
    failed: set[str] = field(default_factory=set[str])
    """Strategies of which a launch that tells the speed didn't end well."""
    others: float = 0.0
    """Seconds of what isn't a launch of a strategy: the oracles, and the probes of the frameworks' ceilings."""

    def add(self, launch: PlannedLaunch, seconds: float, ok: bool) -> None:
        """Note a launch that has ended."""
        self.seconds[launch.name], self.launches[launch.name] = seconds, launch
        if not ok and launch.purpose == "throughput":
            self.failed.add(launch.strategy.name)

    def spent(self) -> float:
        """Seconds of all launches, and of all else."""
        return sum(self.seconds.values()) + self.others

    def report(self) -> float:
        """Seconds that the report is expected to take."""
        return REPORT_LAUNCHES * self.typical()

    def typical(self) -> float:
        """Seconds of a typical launch; 0 before any was made."""
        return statistics.median(self.seconds.values()) if self.seconds else 0.0

    def expected(self, launches: Iterable[PlannedLaunch]) -> float:
        """Seconds that these launches are expected to take in all; 0 before any was made."""
        return sum(self._expected(launch) for launch in launches)

    def _expected(self, launch: PlannedLaunch) -> float:
        """The mean of the launches that are the most like this one; more workers take longer in proportion."""
        for likeness in _LIKENESSES:
            alike = {name: each for name, each in self.launches.items() if likeness(each) == likeness(launch)}
            if alike:
                growth = {name: max(1.0, launch.workers / each.workers) for name, each in alike.items()}
                return statistics.mean(self.seconds[name] * factor for name, factor in growth.items())
        return 0.0


_LIKENESSES: tuple[Callable[[PlannedLaunch], object], ...] = (
    lambda launch: (launch.strategy.name, launch.purpose, launch.task.preset, _size(launch), launch.options),
    lambda launch: (launch.strategy.name, launch.purpose, _size(launch)),
    lambda launch: (launch.strategy.name, launch.workers),
    lambda launch: launch.strategy.name,
    lambda launch: None,
)
"""Keys for predicting a launch's duration, closest match first."""


def _size(launch: PlannedLaunch) -> tuple[object, ...]:
    return launch.workers, launch.hosts, launch.bandwidth_bits_per_second


class ComparisonSchedule(Schedule[PlannedLaunch | PlannedProbe, Record | Ceiling]):
    """The launches of a comparison, stage by stage: what comes next rests on how long those before it took.

    Without a limit there are as many rounds of everything as the scope says. Within one:

    - the first round: the undistributed baselines, and of each strategy its largest world with a core for each process,
      with exchange and without; it stops where the time is up;
    - rounds 2 to 6 of the baselines and of as many strategies, in declared order, as fit with their certificates, the
      asynchronous ones last; one whose launch failed isn't tried again;
    - in these rounds exchange is off as well for as many of these strategies as there is time for, in turn;
    - their certificates; then smaller worlds, oversubscribed ones, and more rounds, each where it fits.

    After the first round the probes of the frameworks' ceilings are made, unless a strategy, or the smaller world of
    one, would be left out for them.
    """

    def __init__(
        self,
        scope: Scope,
        order: random.Random,
        probes: Sequence[PlannedProbe] = (),
        prepare: Callable[[Sequence[PlannedLaunch]], None] = lambda launches: None,
    ) -> None:
        """`prepare` is called with the launches of the first round.

        What that takes, such as computing their oracles, counts.
        """
        super().__init__(self._decide())
        self._scope, self._order = scope, order
        self._worlds, self._main_worlds = worlds(scope), main_worlds(scope)
        # The baselines, which every speed-up needs, the others in declared order, and last what can't be ranked.
        strategies = dict.fromkeys(strategy for strategy, _ in self._worlds if strategy.name in self._main_worlds)
        self._strategies = sorted(
            strategies, key=lambda each: (each.base is not None, not each.is_synchronous(each.options()))
        )
        self._t_comp_rounds = Counter[str]()
        self._with_t_comp = set[str]()
        self._probes, self._prepare, self._round_number = probes, prepare, 0
        self.durations = Durations()
        self.left_out: dict[str, float] = {}
        """Strategies that the time doesn't suffice for, with the minutes that would do for each."""
        self.has_time_for_probes = True
        self.stage: Stage[PlannedLaunch | PlannedProbe] | None = None
        """The stage that is being made."""

    def next_stage(self) -> Stage[PlannedLaunch | PlannedProbe] | None:
        """The next launches; None where the comparison is over."""
        self.stage = super().next_stage()
        return self.stage

    def note(self, launch: PlannedLaunch | PlannedProbe, seconds: float, record: Record | Ceiling) -> None:
        """Take note of how long a launch took, or a probe, and of how it ended."""
        if isinstance(launch, PlannedProbe):
            self.durations.others += seconds
        else:
            self.durations.add(launch, seconds, record.status == "ok")

    def seconds_left(self) -> float | None:
        """Up to the limit; else what the rounds to come will take by the first one, once that has been made."""
        if self._scope.limit_seconds is not None:
            return max(0.0, self._scope.limit_seconds - self.durations.spent() - self.durations.report())
        launches = self.durations.launches.values()
        first = [each for each in launches if each.purpose == "throughput" and each.repetition == 1]
        rounds = self._scope.rounds - self._round_number + 1
        return rounds * self.durations.expected(first) if self._round_number > 1 else None

    def _decide(self) -> Iterator[Stage[Any]]:
        limit_seconds = self._scope.limit_seconds
        if limit_seconds is None:
            for repetition in range(1, self._scope.rounds + 1):
                self._round_number = repetition
                yield whole_round(self._scope, repetition, self._order)
                if repetition == 1:
                    yield from self._probed(math.inf)
            return
        for launch in self._shuffled(each for strategy in self._strategies for each in self._main(strategy, 1)):
            if not self._fits([launch]):
                break
            yield Stage("round", f"round 1 of {FEWEST_LAUNCHES}", [launch])
        kept = measured = [
            strategy
            for strategy in self._strategies
            if strategy.name not in self.durations.failed
            and all(launch.name in self.durations.seconds for launch in self._main(strategy, 1))
        ]
        ranking_seconds = sum(self._ranking_seconds(strategy, 2) for strategy in measured)
        yield from self._probed(limit_seconds - ranking_seconds - self._scaling_seconds(measured))
        for repetition in range(2, FEWEST_LAUNCHES + 1):
            kept = self._affordable(kept, repetition, limit_seconds * (1 if repetition == 2 else 1 + LATENESS))
            if not kept:
                break
            yield self._round(kept, repetition, f"round {repetition} of {FEWEST_LAUNCHES}")
        # With time for no strategy's rounds there may still be some for what shows that it works.
        working = [each.name for each in kept or measured]
        yield from self._certified(working)
        block = FEWEST_LAUNCHES + 1
        yield from self._other_worlds(working, block)
        for repetition in itertools.count(block + 1) if kept else ():
            # One more round of all worlds, or else of those of every round.
            usual = self._round(kept, repetition, MORE)
            others = [
                launch
                for strategy, size in self._worlds
                if strategy in kept and size != self._main_worlds[strategy.name]
                for launch in speed_launches(self._scope, strategy, size, repetition, with_t_comp=False)
            ]
            whole = self._shuffled([*usual.launches, *others])
            fitting = [launches for launches in (whole, usual.launches) if self._fits(launches)]
            if not fitting:
                return
            yield Stage("round", MORE, fitting[0])

    def _probed(self, limit_seconds: float) -> Iterator[Stage[PlannedProbe]]:
        """The probes, each of which is expected to last as long as a typical launch."""
        started = time.monotonic()
        self._prepare([*self.durations.launches.values()])
        self.durations.others += time.monotonic() - started
        expected = self.durations.spent() + self.durations.report() + len(self._probes) * self.durations.typical()
        self.has_time_for_probes = not self._probes or expected <= limit_seconds
        if self._probes and self.has_time_for_probes:
            yield Stage("ceilings", "the frameworks' ceilings", self._probes)

    def _affordable(self, candidates: Sequence[Strategy], repetition: int, limit_seconds: float) -> list[Strategy]:
        """Of `candidates` those that fit from this round on; the others of the scope are noted as left out.

        Where the time is short, launches without exchange give way first: in each round they are made of those that
        have had the fewest.
        """
        rounds = FEWEST_LAUNCHES + 1 - repetition
        seconds = needed = self.durations.spent() + self.durations.report()
        kept = list[Strategy]()
        for strategy in self._strategies:
            if strategy.name in self.durations.failed or (strategy.name in self.left_out and repetition > 2):
                continue
            cost = self._ranking_seconds(strategy, repetition)
            needed += cost
            if strategy in candidates and seconds + cost <= limit_seconds:
                seconds += cost
                kept.append(strategy)
            else:
                self.left_out[strategy.name] = math.ceil(needed / 6) / 10
        room = (limit_seconds - seconds - self._scaling_seconds(kept)) / rounds
        self._with_t_comp.clear()
        for strategy in sorted(kept, key=lambda each: self._t_comp_rounds[each.name]):
            without_exchange = [each for each in self._main(strategy, repetition) if not has_exchange(each.options)]
            cost = self.durations.expected(without_exchange)
            if cost <= room:
                room -= cost
                self._with_t_comp.add(strategy.name)
                self._t_comp_rounds[strategy.name] += len(without_exchange)
        return kept

    def _ranking_seconds(self, strategy: Strategy, repetition: int) -> float:
        """What is expected to rank the strategy: rounds with exchange, from this one on, and its certificates."""
        launches = [each for each in self._main(strategy, repetition) if has_exchange(each.options)]
        certified = certificate_launches(self._scope, strategy, self._main_worlds[strategy.name])
        rounds = FEWEST_LAUNCHES + 1 - repetition
        return rounds * self.durations.expected(launches) + self.durations.expected(certified)

    def _scaling_seconds(self, strategies: Sequence[Strategy]) -> float:
        """What is expected for one launch of each smaller world of these strategies, and its certificate."""
        main = self._main_worlds
        smaller = [each for each, size in self._worlds if each in strategies and size[:2] < main[each.name][:2]]
        return 2 * self.durations.typical() * len(smaller)

    def _round(self, kept: Iterable[Strategy], repetition: int, title: str) -> Stage[PlannedLaunch]:
        launches = [
            launch
            for strategy in kept
            for launch in self._main(strategy, repetition)
            if has_exchange(launch.options) or strategy.name in self._with_t_comp
        ]
        return Stage("round", title, self._shuffled(launches))

    def _certified(self, names: Sequence[str]) -> Iterator[Stage[PlannedLaunch]]:
        """The certificates of the worlds that the rounds have, each where it fits."""
        launches = [
            launch
            for strategy, size in self._worlds
            if strategy.name in names and size == self._main_worlds[strategy.name]
            for launch in certificate_launches(self._scope, strategy, size)
        ]
        for launch in self._shuffled(launches):
            if self._fits([launch]):
                yield Stage("certificates", "certificates", [launch])

    def _other_worlds(self, names: Sequence[str], repetition: int) -> Iterator[Stage[PlannedLaunch]]:
        """Smaller worlds of these strategies, then oversubscribed ones of all without another, each where it fits."""
        main = self._main_worlds
        others = [(strategy, size) for strategy, size in self._worlds if size != main.get(strategy.name)]
        smaller = [(each, size) for each, size in others if each.name in main and size[:2] <= main[each.name][:2]]
        oversubscribed = [world for world in others if world not in smaller]
        for title, of_title in (("smaller worlds", smaller), ("oversubscribed worlds", oversubscribed)):
            for strategy, size in sorted(of_title, key=lambda world: world[1][:2]):
                wanted = strategy.name in names or strategy.name not in main
                launches = speed_launches(self._scope, strategy, size, repetition, with_t_comp=False)
                launches += certificate_launches(self._scope, strategy, size)
                if wanted and strategy.name not in self.durations.failed and self._fits(launches):
                    yield Stage(title, title, launches)

    def _main(self, strategy: Strategy, repetition: int) -> list[PlannedLaunch]:
        return speed_launches(self._scope, strategy, self._main_worlds[strategy.name], repetition)

    def _shuffled(self, launches: Iterable[PlannedLaunch]) -> list[PlannedLaunch]:
        in_order = [*launches]
        self._order.shuffle(in_order)
        return in_order

    def _fits(self, launches: Iterable[PlannedLaunch]) -> bool:
        seconds = self.durations.spent() + self.durations.expected(launches) + self.durations.report()
        return seconds <= (self._scope.limit_seconds or math.inf)
