"""Replay strategies' exchanges alone, beside their whole steps, and try from which batch on they pay (15 min).

To start it: `nox -s exchanges`, or `nox -s exchanges -- --profile full --workers 4`. An interrupted session goes on
where it stopped when it is started again with the same options.
"""

import dataclasses
import math
import random
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast

import pandas
import tyro
from msgspec import structs
from rich.table import Table

from common.contract import dataset
from common.contract.dataset import preset_task
from common.declarations import catalogue
from common.declarations.strategy import ExchangeOptions, Strategy, has_exchange
from common.declarations.sweep import Sweep, Type
from common.errors import UserError, exit_with_one_line
from common.files import ensure_writable
from common.launching import executor
from common.launching.executor import HERE, Executor
from common.launching.hosts import slurm
from common.launching.hosts.slurm import SlurmOptions
from common.launching.planned import PlannedLaunch, PlannedSweep
from common.records import certificate, manifest, metrics
from common.records.collectives import CollectivesRecord, Replayed
from common.records.files import read_record, read_records, record_paths, write_record
from common.records.trace import FIRST_STEP, STEPS, read_trace, trace_path
from common.records.training import Record
from common.sessions import chosen_hosts, comparison_scope, submission
from common.sessions.session import Options, Output, Placed, Schedule, Stage, begin, console_for, counted, report
from common.statistics.paired import MARGIN

TRIED = (1, 2)
"""Multiples of the batch from which on it would pay, at which it is tried: the first only breaks even, twice tells."""

TRACES, REPLAYS = "traces", "replays"
"""The folders of their records, below the session's. Those of strategies' steps lie in that itself, as a comparison's.
"""

_FEWEST_WARMUP_STEPS = 3
"""The first step compiles, and what frameworks settle after that isn't to be clocked either."""

_WINDOW_STEPS = 10

_NO_MESSAGES = "It left no messages."

Planned = Placed[PlannedLaunch | PlannedSweep]


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
        preset_task(self.preset)
        if self.workers < 2:
            raise UserError(f"--workers {self.workers}: an exchange needs two at least; give 2 or more.")
        if min(self.iterations, self.rounds) < 1:
            raise UserError("--iterations and --repetitions take whole numbers above 0.")

    @property
    def rounds(self) -> int:
        """How many rounds it makes."""
        return (6 if self.profile == "quick" else 10) if self.repetitions is None else self.repetitions

    @property
    def chosen(self) -> list[Strategy]:
        """The strategies, without their bases, in their declared order."""
        return [
            strategy
            for strategy in catalogue.strategies().values()
            if strategy.most_workers != 1
            and (strategy.name in self.strategies if self.strategies else strategy.quick or self.profile == "full")
        ]


@dataclass(frozen=True)
class Arguments:
    """Options of a session."""

    scope: tyro.conf.OmitArgPrefixes[Scope] = field(default_factory=Scope)
    output: tyro.conf.OmitArgPrefixes[Output] = field(
        default_factory=lambda: Output(out=Path("reports/out/exchanges.pdf"))
    )
    session: tyro.conf.OmitArgPrefixes[Options] = field(default_factory=Options)
    allocation: tyro.conf.OmitArgPrefixes[SlurmOptions] = field(default_factory=SlurmOptions)


def main() -> None:
    """Run what the command line asks for. Raises UserError for what a user can mend."""
    arguments = tyro.cli(Arguments, description=__doc__, args=submission.own_words(sys.argv[1:]))
    console, scope, output = console_for(width=120), arguments.scope, arguments.output
    if arguments.allocation.submit:
        submission.submit(console, "exchanges", "common.laboratory.exchanges", arguments)
        return
    if output.plan:
        table = Table("strategy", "base", "traces", "steps, of them without exchange", "replays")
        for strategy in scope.chosen:
            without = scope.rounds if issubclass(strategy.options, ExchangeOptions) else 0
            steps = f"{scope.rounds + without}, {without}"
            table.add_row(strategy.name, str(strategy.base), "1", steps, f"up to {scope.rounds}")
        console.print(table)
        console.print(
            f"{scope.rounds} rounds, in which each base is launched once. Then, where by the account a larger batch "
            f"would pay, {scope.rounds} rounds of strategy and base at that batch and at twice as many rows."
        )
        return
    ensure_writable(output.out)
    hosts = chosen_hosts.on_one_host(console, arguments.allocation)
    job = slurm.job() if arguments.allocation.slurm else None
    with begin(console, "exchanges", arguments, repr(scope) + chosen_hosts.kind_of(hosts), job=job) as session:
        schedule = Schedule[Planned, Record | CollectivesRecord](stages(scope, session.order_seed, session.folder))
        session.run(
            schedule, partial(make, hosts=hosts), read, plan_table=partial(steps_table, order_seed=session.order_seed)
        )
    folder = session.folder
    traces, steps = ([*map(read, record_paths(place))] for place in (folder / TRACES, folder))
    replays = read_records(folder / REPLAYS, CollectivesRecord).values()
    # What couldn't be traced stands among the replays for the report, and counts as a trace.
    failed = counted(console, [*traces, *steps, *(each for each in replays if each.replayed and each.replayed.launch)])
    sys.exit(report("reports", folder, output.out) or failed)


def stages(scope: Scope, seed: int, folder: Path) -> Iterator[Stage[Planned]]:
    """Traces, rounds of steps and of replays, and rounds at batches that may pay, in an order that the seed shuffles.

    What comes later depends on what came before: a replay sends what a trace has seen, and a batch is tried where, by
    the account of the rounds, synchronous SGD would begin to pay.
    """
    order = random.Random(seed)
    yield Stage(TRACES, TRACES, [Placed(TRACES, traced(scope, strategy)) for strategy in scope.chosen])
    for number in range(1, scope.rounds + 1):
        steps = whole_steps(scope, number)
        replays = [replay(scope, step, folder) for step in steps if has_exchange(step.options)]
        yield _round(f"round {number} of {scope.rounds}", steps, filter(None, replays), order)
    batches = [(strategy, batch) for strategy in scope.chosen for batch in batches_to_try(scope, strategy, folder)]
    for number in range(1, scope.rounds + 1 if batches else 1):
        steps = [each for strategy, batch in batches for each in at_batch(scope, strategy, batch, number)]
        yield _round(f"larger batches, round {number} of {scope.rounds}", steps, (), order)


def _round(
    title: str, steps: Iterable[PlannedLaunch], replays: Iterable[PlannedSweep], order: random.Random
) -> Stage[Planned]:
    # Of two strategies that are tried at the same batch the base is the same.
    launches = {each.name: Planned("", each) for each in steps}
    in_order = [*launches.values(), *(Planned(REPLAYS, each) for each in replays)]
    order.shuffle(in_order)
    return Stage("round", title, in_order)


def steps_table(stages: Sequence[Stage[Planned]], order_seed: int) -> pandas.DataFrame:
    """The plan as the report reads it: the steps of every round, as a comparison's."""
    rounds = [
        Stage(stage.name, stage.title, [each.launch for each in stage.launches])
        for stage in stages
        if stage.name == "round"
    ]
    return comparison_scope.plan_table(rounds, order_seed, MARGIN)


def traced(scope: Scope, strategy: Strategy) -> PlannedLaunch:
    """The launch in which the tracer sees the strategy's messages."""
    steps = FIRST_STEP + STEPS + 2 * _WINDOW_STEPS
    task = dataclasses.replace(
        preset_task(scope.preset),
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
    rounds = [_seconds_per_step(scope, strategy, number, folder) for number in range(1, scope.rounds + 1)]
    whole = [each for each in rounds if len(each) == 3]
    if not whole:
        return []
    base_seconds = statistics.median(each["base"] for each in whole)
    contention = statistics.median(each["t_comp"] / each["base"] for each in whole)
    exchange_seconds = statistics.median(each["step"] - each["t_comp"] for each in whole)
    batch = preset_task(scope.preset).batch
    fewest = metrics.fewest_batch(batch, scope.workers, base_seconds, contention, exchange_seconds)
    if not batch < fewest < math.inf:
        return []
    rows = len(dataset.load(preset_task(scope.preset)).train_labels)
    # The next whole numbers of two significant digits: an extrapolation has no more.
    units = {factor: 10 ** max(0, math.floor(math.log10(factor * fewest)) - 1) for factor in TRIED}
    tried = [math.ceil(factor * fewest / unit) * unit for factor, unit in units.items()]
    return [each for each in tried if each * scope.workers <= rows]


def _seconds_per_step(scope: Scope, strategy: Strategy, repetition: int, folder: Path) -> Mapping[str, float]:
    """Of a round: of the `base`, of the strategy's whole `step`, and of it without exchange, `t_comp`, as far as ok."""
    seconds = dict[str, float]()
    for launch in whole_steps(scope, repetition):
        if launch.strategy.name in (strategy.base, strategy.name):
            record = read_record(folder / f"{launch.name}.json", Record)
            of_strategy = "step" if has_exchange(launch.options) else "t_comp"
            if record.status == "ok" and certificate.trusted({launch.name: record}, folder):
                kind = of_strategy if launch.strategy is strategy else "base"
                seconds[kind] = metrics.throughput(record).seconds_per_step
    return seconds


def at_batch(scope: Scope, strategy: Strategy, batch: int, repetition: int) -> list[PlannedLaunch]:
    """The strategy and its base with so many rows per worker: as many windows, in which about as many rows are seen."""
    task, base = preset_task(scope.preset), catalogue.find(str(strategy.base))
    share, windows = task.batch / batch, (task.steps - task.warmup_steps) // task.window_steps
    window_steps = max(1, math.ceil(task.window_steps * share))
    warmup_steps = max(_FEWEST_WARMUP_STEPS, math.ceil(task.warmup_steps * share))
    launches = list[PlannedLaunch]()
    for each, workers in ((base, 1), (strategy, scope.workers)):
        larger = dataclasses.replace(
            task,
            scaling="weak",
            workers=workers,
            deadline_seconds=180.0,
            batch=batch,
            window_steps=window_steps,
            warmup_steps=warmup_steps,
            steps=warmup_steps + windows * window_steps,
        )
        launches.append(PlannedLaunch(each, workers, "throughput", repetition, larger, each.options()))
    return launches


def make(planned: Planned, folder: Path, hosts: Executor[Any] = HERE) -> Record | CollectivesRecord:
    """Make one launch and return its record, left in its place in the session's folder."""
    if planned.folder == TRACES and isinstance(planned.launch, PlannedLaunch):
        return _trace(planned.launch, folder, hosts)
    return executor.run_planned(planned.launch, folder / planned.folder, hosts)


def read(path: Path) -> Record | CollectivesRecord:
    """The record of a launch; a trace without messages has failed. Raises UserError for a damaged one."""
    if path.parent.name == REPLAYS:
        return read_record(path, CollectivesRecord)
    record = read_record(path, Record)
    if path.parent.name == TRACES and record.status == "ok" and not trace_path(path).exists():
        return structs.replace(record, status="failed", reason=_NO_MESSAGES)
    return record


def _trace(launch: PlannedLaunch, folder: Path, hosts: Executor[Any]) -> Record:
    """Make one traced launch. Where it leaves no messages a record among the replays says why there is none."""
    place, path = folder / TRACES, folder / REPLAYS / f"{launch.strategy.name}-{launch.workers}w.json"
    messages = trace_path(place.resolve() / f"{launch.name}.json")
    for left in (messages, path):
        left.unlink(missing_ok=True)
    manifest.note(folder, [path])
    record = executor.run_planned(dataclasses.replace(launch, runner="tracer"), place, hosts)
    if messages.exists():
        return record
    if record.status == "ok":
        record = structs.replace(record, status="failed", reason=_NO_MESSAGES)
    refused = CollectivesRecord(
        library="",
        family=launch.strategy.family.title,
        status=record.status,
        reason=record.reason,
        log=f"../{TRACES}/{record.log}" if record.log else None,
        world_size=launch.workers,
        threads_per_worker=launch.task.threads,
        sweep=Sweep(workers=launch.workers, threads=launch.task.threads),
        replayed=Replayed(strategy=launch.strategy.name, launch="", source=""),
        started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )
    write_record(path, refused)
    manifest.note(folder, [path])
    return record


if __name__ == "__main__":
    exit_with_one_line(main)
