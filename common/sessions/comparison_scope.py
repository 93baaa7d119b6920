"""What a comparison covers: the worlds of every strategy, and the launches that tell their speed and their maths."""

import dataclasses
import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas
import tyro

from common.contract.dataset import preset_task
from common.contract.model import parameter_bytes
from common.contract.task import PRESETS, Task
from common.declarations import catalogue
from common.declarations.strategy import ExchangeOptions, Options, Strategy, has_exchange, label
from common.errors import NotInstalledError, UserError
from common.launching.launch import python_for
from common.launching.planned import Hosts, PlannedLaunch, Size
from common.measurement import limits
from common.records.metrics import ring_bound
from common.records.plan import PlannedRow
from common.sessions.session import Stage
from common.statistics.paired import MARGIN

_FULL_REPETITIONS = 10
"""Launches of each kind in the full profile: the fewest that a speed claim may rest on."""

_QUICK_MINUTES = 10.0

_ASYNCHRONOUS_STEPS = 1000
"""Steps of an asynchronous certificate of several workers: enough for a loss that tells how well it trained."""

_LINK_SECONDS, _LINK_WINDOWS = 20.0, 8
"""For how long, at least, and in how many windows a launch over a link of a chosen bandwidth is measured."""


@dataclass(frozen=True)
class Scope:
    """What a comparison covers; every option narrows or widens its profile."""

    profile: Literal["quick", "full"] = "quick"
    """quick: --minutes; the core strategies, weak scaling on pathway, certificate and accuracy on digits; rounds of the
    largest worlds that have a core for each process come first. full: hours; every strategy, weak and strong, three
    regimes, 10 launches of each kind."""
    strategies: tuple[str, ...] = ()
    """Only these strategies; none named: the profile's."""
    workers: tuple[int, ...] = (1, 2, 4)
    """Numbers of workers to start."""
    preset: tuple[str, ...] = ()
    """Measure throughput on these presets; none named: the profile's. Where mnist is one of them, it takes the place of
    digits for certificate and accuracy."""
    models: tuple[str, ...] = ()
    """Measure and certify these networks, each on its own preset: mlp, lenet, fashion_cnn, gpt; or presets' names."""
    repetitions: int | None = None
    """Launches of each kind that tells the speed; none: 10 (full), or as many as fit into the time (quick)."""
    minutes: float | None = None
    """How long the quick profile takes, from the first launch to the report; none: 10. It measures as many strategies,
    in their declared order, as it can tell apart in this time, and names the others."""
    margin: float = MARGIN
    """Strategies that surely differ by no more than this share are called alike. Set it before you see results."""
    address: str | None = None
    """Send all launches to the cluster at this address. Name the --strategies, which need an option --address of their
    own. Ceilings are left out: they would be this machine's."""
    spread: tyro.conf.Suppress[Hosts | None] = None
    """The hosts where there are several, which other options name."""

    def __post_init__(self) -> None:
        """Raises UserError for a strategy, a preset or a number that doesn't exist."""
        named = [catalogue.find(name) for name in self.strategies]
        if self.address is not None and not (named and all(hasattr(each.options, "address") for each in named)):
            able = [name for name, each in catalogue.strategies().items() if hasattr(each.options, "address")]
            raise UserError(f"--address takes strategies that can go there: add --strategies {' '.join(able)} alone.")
        for name in self.preset:
            preset_task(name)
        if self.models and self.preset:
            raise UserError("--models names a preset for each network: leave --preset out.")
        if unknown := [name for name in self.models if name not in {*MODEL_PRESETS, *PRESETS}]:
            raise UserError(
                f"There is no network named '{unknown[0]}': choose some of {', '.join(MODEL_PRESETS)}, or a preset."
            )
        counts = [*self.workers, 1 if self.repetitions is None else self.repetitions]
        if not self.workers or min(counts) < 1:
            raise UserError("--workers and --repetitions take whole numbers above 0.")
        if self.minutes is not None and (self.profile == "full" or self.repetitions):
            raise UserError("--minutes limits the quick profile alone: leave out --profile full and --repetitions.")
        if self.minutes is not None and not 0 < self.minutes < math.inf:
            raise UserError(f"--minutes {self.minutes:g}: give a number above 0.")
        if not 0 < self.margin < 1:
            raise UserError(f"--margin {self.margin:g}: give a share between 0 and 1, such as 0.05.")

    @property
    def limit_seconds(self) -> float | None:
        """How long the comparison may take; None where it makes all rounds, however long they take."""
        if self.profile == "full" or self.repetitions:
            return None
        return 60 * (_QUICK_MINUTES if self.minutes is None else self.minutes)

    @property
    def rounds(self) -> int:
        """How many rounds it makes where no time limits it."""
        return self.repetitions or _FULL_REPETITIONS


MODEL_PRESETS = {"mlp": "pathway"} | {
    task.model: name for name, task in reversed(PRESETS.items()) if task.model != "mlp"
}
"""The preset on which a network is measured."""


def measured_presets(scope: Scope) -> tuple[str, ...]:
    """Presets on which throughput is measured: those named, those of the named networks, or the profile's."""
    named = [*scope.preset, *(MODEL_PRESETS.get(name, name) for name in scope.models)]
    # Without MNIST's files two names may be one preset.
    known = tuple(dict.fromkeys(preset_task(name).preset for name in named))
    return known or (("digits", "pathway", "wide") if scope.profile == "full" else ("pathway",))


def whole_round(scope: Scope, repetition: int, order: random.Random) -> Stage[PlannedLaunch]:
    """A round of everything, shuffled across frameworks; the first one holds the certificates as well.

    Rounds make blocks: a round has every launch that tells the speed once, so a machine that slows down slows all of
    them.
    """
    launches, main = list[PlannedLaunch](), main_worlds(scope)
    for strategy, size in worlds(scope):
        if repetition == 1:
            launches += certificate_launches(scope, strategy, size)
        with_t_comp = scope.profile == "full" or size.hosts > 1 or size == main.get(strategy.name)
        launches += speed_launches(scope, strategy, size, repetition, with_t_comp)
    order.shuffle(launches)
    return Stage("round", f"round {repetition} of {scope.rounds}", launches)


def certified_presets(scope: Scope) -> tuple[str, ...]:
    """Presets on which every strategy is held against the oracle."""
    if scope.models:
        return measured_presets(scope)
    mnist = [name for name in measured_presets(scope) if name.startswith("mnist")]
    return (*(mnist or ("digits",)), *(("pathway",) if scope.profile == "full" else ()))


def plan_table(stages: Iterable[Stage[Any]], order_seed: int, margin: float) -> pandas.DataFrame:
    """The plan as the report reads it: one row for each launch of a strategy, in their order; probes are left out."""
    launches = [(stage, launch) for stage in stages for launch in stage.launches if isinstance(launch, PlannedLaunch)]
    rows = [
        PlannedRow(
            position=position,
            launch=launch.name,
            strategy=launch.strategy.name,
            label=label(launch.options),
            preset=launch.task.preset,
            scaling=launch.task.scaling,
            workers=launch.workers,
            hosts=launch.hosts or 1,
            bandwidth_bits_per_second=launch.bandwidth_bits_per_second,
            exchange=has_exchange(launch.options),
            repetition=launch.repetition,
            purpose=launch.purpose,
            stage=stage.name,
            order_seed=order_seed,
            margin=margin,
        )
        for position, (stage, launch) in enumerate(launches, start=1)
    ]
    return pandas.DataFrame(rows)


def with_steps_for(task: Task, size: Size) -> Task:
    """`task` with as few steps as fill 20 s where all the gradients take long over the hosts' links.

    By the ring's lower bound for one worker on each host.
    """
    bits = size.bandwidth_bits_per_second
    if bits is None:
        return task
    seconds = ring_bound(parameter_bytes(task), size.hosts, bits)
    steps = max(_LINK_WINDOWS, math.ceil(_LINK_SECONDS / seconds))
    if steps >= task.steps - task.warmup_steps:
        return task
    window_steps = math.ceil(steps / _LINK_WINDOWS)
    warmup_steps = min(task.warmup_steps, window_steps)
    return dataclasses.replace(
        task, window_steps=window_steps, warmup_steps=warmup_steps, steps=warmup_steps + _LINK_WINDOWS * window_steps
    )


def worlds(scope: Scope) -> list[tuple[Strategy, Size]]:
    """Every strategy of the scope, in declared order, with every size that it can have, from small to large."""
    strategies, unmade = catalogue.strategies(), not_made(scope)
    of_profile = [
        name
        for name, strategy in strategies.items()
        if scope.profile == "full" or strategy.quick or (strategy.quick_where_made and name not in unmade)
    ]
    return [
        (strategies[name], size)
        for name in scope.strategies or of_profile
        for workers in sorted({1} if strategies[name].most_workers == 1 else {*scope.workers})
        for size in placements(scope.spread, workers)
    ]


def not_made(scope: Scope) -> dict[str, str]:
    """The strategies that the quick profile goes without since their environment isn't made: the reason by name."""
    reasons = dict[str, str]()
    if scope.strategies or scope.profile == "full":
        return reasons
    for name, strategy in catalogue.strategies().items():
        if strategy.quick_where_made:
            try:
                python_for(strategy)
            except NotInstalledError as error:
                reasons[name] = str(error)
    return reasons


def placements(hosts: Hosts | None, workers: int) -> list[Size]:
    """The sizes of so many workers: all on one host, and as many on each of several, where they have the slots.

    In a sweep of bandwidths these several are as many as can be.
    """
    if hosts is None:
        return [Size(workers)]
    # One worker per host at most, so of one worker there is only one placement.
    counts = [count for count in range(1, min(hosts.count, workers) + 1) if workers % count == 0]
    counts = [count for count in counts if workers // count <= hosts.slots]
    if len(hosts.bandwidths_bits_per_second) > 1:
        counts = sorted({*counts[:1], *counts[-1:]})
    links = {True: hosts.bandwidths_bits_per_second, False: (None,)}
    return [Size(workers, count, bandwidth) for count in counts for bandwidth in links[count > 1]]


def is_oversubscribed(scope: Scope, strategy: Strategy, size: Size) -> bool:
    """Whether so many workers, and the processes beside them, have more threads than their machines have cores.

    A cluster at an address refuses more workers than it has cores.
    """
    hosts = scope.spread
    if scope.address is not None:
        return False
    together, on_each = (strategy.threads_of(size.workers // count) for count in (1, size.hosts))
    if hosts is None:
        return together > limits.usable_cores()
    return on_each > hosts.cores or (hosts.cores_together is not None and together > hosts.cores_together)


def main_worlds(scope: Scope) -> dict[str, Size]:
    """By strategy the size of the world that every round has: the largest, over most hosts, that isn't oversubscribed.

    A strategy that has none takes no part in the rounds, unless all that distribute anything are alike in that: then it
    is the smallest of each.
    """
    of_scope = [(strategy, size) for strategy, size in worlds(scope) if _is_whole(scope, size)]
    fitting = {strategy.name: size for strategy, size in of_scope if not is_oversubscribed(scope, strategy, size)}
    distributed = {strategy.name for strategy, _ in of_scope if strategy.most_workers != 1}
    if distributed and not distributed & {*fitting}:
        return {strategy.name: size for strategy, size in reversed(of_scope)}
    return fitting


def _is_whole(scope: Scope, size: Size) -> bool:
    """Whether a world of this size gets every kind of launch."""
    return scope.spread is None or scope.spread.is_first_link(size)


def speed_launches(
    scope: Scope, strategy: Strategy, size: Size, repetition: int, with_t_comp: bool = True
) -> list[PlannedLaunch]:
    """Every launch that tells the speed of a world of this size, those among them that will be refused.

    `with_t_comp` adds launches with gradient exchange off, which tell T_comp, for strategies that exchange.
    """
    full, spread = scope.profile == "full", scope.spread
    hosts, link = size.hosts if spread else None, size.bandwidth_bits_per_second
    is_chosen = spread is not None and size.hosts > 1 and spread.bandwidths_bits_per_second != (None,)
    variants, over_links = _variants(scope, strategy, size), [strategy.options(**each) for each in strategy.over_links]
    if with_t_comp and size.workers > 1 and _is_whole(scope, size) and issubclass(strategy.options, ExchangeOptions):
        variants += [dataclasses.replace(variant, exchange=False) for variant in variants]
    variants += over_links if is_chosen else []
    launches = list[PlannedLaunch]()
    for preset in measured_presets(scope):
        for scaling in ("weak", "strong") if full else ("weak",):
            task = dataclasses.replace(
                preset_task(preset), scaling=scaling, workers=size.workers, deadline_seconds=180.0
            )
            for options in dict.fromkeys(variants):
                clocked = task
                if not strategy.is_synchronous(options):
                    # A window ends when all of its updates are applied, so the workers run dry there. In short windows
                    # that would be a large part of the time.
                    window_steps = 4 * task.window_steps
                    steps = task.warmup_steps + 3 * window_steps
                    clocked = dataclasses.replace(task, window_steps=window_steps, steps=steps)
                clocked = with_steps_for(clocked, size) if has_exchange(options) else clocked
                launches.append(
                    PlannedLaunch(strategy, size.workers, "throughput", repetition, clocked, options, hosts, link)
                )
    return launches


def certificate_launches(scope: Scope, strategy: Strategy, size: Size) -> list[PlannedLaunch]:
    """The launches that hold a world of this size against the oracle, on every preset of the profile.

    One for each variant; for a strategy that is asynchronous by default, a synchronous one and one as it is. What is
    asynchronous with several workers has no oracle to follow: the quick profile certifies one such world alone.
    """
    if not _is_whole(scope, size):
        return []
    counts, variants, launches = sorted(scope.workers), _variants(scope, strategy, size), list[PlannedLaunch]()
    hosts, link = size.hosts if scope.spread else None, size.bandwidth_bits_per_second
    largest = max((count for count in counts if count <= limits.usable_cores()), default=counts[0])
    for preset in certified_presets(scope):
        task = certificate_task(preset, size.workers)
        certified = [(task, options) for options in variants]
        if not strategy.is_synchronous(variants[0]):
            certified = [(task, dataclasses.replace(variants[0], **strategy.synchronous_with))]
            if scope.profile == "full" or size.workers in (1, largest):
                longer = dataclasses.replace(task, steps=_ASYNCHRONOUS_STEPS, checkpoint_steps=50)
                certified.append((task if size.workers == 1 else longer, variants[0]))
        launches += [
            PlannedLaunch(strategy, size.workers, "certificate", 1, task, options, hosts, link)
            for task, options in certified
        ]
    return launches


def _variants(scope: Scope, strategy: Strategy, size: Size) -> list[Options]:
    """The options that the profile launches with a world of this size: the defaults first."""
    variants: list[Mapping[str, object]] = [*strategy.variants] if scope.profile == "full" else []
    if {"backend": "mpi"} in variants and size.hosts > 1 and scope.spread and scope.spread.srun_starts_mpi:
        variants.append({"backend": "mpi", "mpi_starter": "srun"})
    there = {} if scope.address is None else {"address": scope.address}
    return [strategy.options(**there), *(strategy.options(**values, **there) for values in variants)]


def certificate_task(preset: str, workers: int) -> Task:
    """What a certificate trains: long enough to tell how accurate it gets, with its weights and their way kept."""
    return dataclasses.replace(
        preset_task(preset),
        scaling="strong",
        workers=workers,
        steps=120 if preset == "pathway" else preset_task(preset).steps,
        checkpoint_steps=25,
        deadline_seconds=180.0,
        checkpoint=Path("weights.safetensors"),
    )
