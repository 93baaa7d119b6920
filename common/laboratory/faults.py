"""Kill a worker of each framework's strategy, and tell who notices, what goes on, and if it is right (12 minutes).

To start it: `nox -s faults`, or `nox -s faults -- --profile full`. An interrupted session goes on where it stopped when
it is started again with the same options.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import tyro
from msgspec import structs

from common.contract import fault
from common.contract.task import Task
from common.declarations import catalogue
from common.declarations.strategy import Strategy
from common.errors import UserError, exit_with_one_line
from common.launching.attempts import noticed
from common.launching.executor import Executor, run_planned
from common.launching.hosts.cluster import Cluster
from common.launching.planned import Hosts, PlannedLaunch
from common.observations import answers
from common.observations.display import Display, Measure, Series, Table, written
from common.observations.numbers import DASH
from common.observations.table import Missing, Observation, whole
from common.records.accounted_launch import ENDED, OTHER, AccountedLaunch, accounted_launches
from common.records.files import read_record, write_record
from common.records.metrics import saving_cost
from common.records.recovery import Recovery, recovery_path
from common.records.training import Record
from common.sessions.comparison_scope import certificate_task
from common.sessions.experiment import Experiment, in_rounds, run

_STEP = 160
"""The step before which the fault comes, ten after a checkpoint."""

QUICK = (f"kill:rank=1,step={_STEP}",)
OF_HOSTS = (f"host:name=host2,step={_STEP}", f"cable:name=host2,step={_STEP},seconds=5")
FULL = (*QUICK, f"stop:rank=1,step={_STEP}", "slow:rank=1,factor=3", "late:rank=1,seconds=10", "missing:rank=1")


@dataclass(frozen=True, kw_only=True)
class Scope:
    """What a session covers; every option narrows or widens its profile."""

    profile: Literal["quick", "full"] = "quick"
    """quick: a killed worker, one strategy of each framework, 6 rounds, about 12 minutes. full: hours; every fault,
    every strategy with several processes, 10 rounds."""
    strategies: tuple[str, ...] = ()
    """Only these strategies; none named: the profile's."""
    faults: tuple[str, ...] = ()
    """Only these faults, as --inject has them; none named: the profile's."""
    workers: int = 2
    """Workers of each."""
    repetitions: int | None = None
    """Rounds; none: the profile's. With fewer than 6 there are no intervals."""
    deadline_seconds: float = 60.0
    """When an attempt is ended in which nobody notices anything."""
    spread: tyro.conf.Suppress[Hosts | None] = None
    """The virtual hosts where there are any, which other options name."""

    def __post_init__(self) -> None:
        """Raises UserError for a strategy, a fault, hosts or a number that can't be had."""
        for name in self.strategies:
            strategy = catalogue.find(name)
            if strategy.work.is_one_process or (self.spread and not strategy.launcher.across_hosts):
                raise UserError(f"{name} has one process, with which all is lost: leave it out.")
        for each in self.faults:
            fault.parse(each)
        if self.workers < 2:
            raise UserError(f"--workers {self.workers}: give 2 or more.")
        if self.spread and self.workers % self.spread.count:
            raise UserError(f"--workers {self.workers} can't be alike on {self.spread.count} hosts: give a multiple.")
        if self.spread and len(self.spread.bandwidths_bits_per_second) > 1:
            raise UserError("--bandwidth: faults take one at a time.")

    @property
    def ranks(self) -> tuple[int, ...]:
        """The number of workers of each strategy."""
        return (self.workers,)

    @property
    def chosen(self) -> list[Strategy]:
        """The strategies: those that are named, all, or one of each family, a quick one where it has any."""
        known = [each for each in catalogue.strategies().values() if not each.work.is_one_process]
        known = [each for each in known if not self.spread or each.launcher.across_hosts]
        if self.strategies:
            return [each for each in known if each.name in self.strategies]
        if self.profile == "full":
            return known
        first: dict[str, Strategy] = {}
        for each in sorted(known, key=lambda each: not each.quick):
            first.setdefault(each.family.title, each)
        return [*first.values()]

    @property
    def suffered(self) -> tuple[str, ...]:
        """The faults."""
        of_profile = QUICK if self.profile == "quick" else FULL
        return self.faults or (*of_profile, *(OF_HOSTS if self.spread else ()))


def launches(scope: Scope, repetition: int) -> Iterator[PlannedLaunch]:
    """The launches of a round: of each strategy undisturbed, with each fault and started again, and in its own ways."""
    task = task_of(scope)
    for strategy in scope.chosen:
        launch = PlannedLaunch(
            strategy=strategy,
            workers=scope.workers,
            purpose="throughput",
            repetition=repetition,
            task=dataclasses.replace(task, restarts=1),
            options=strategy.options(**strategy.synchronous_with),
            hosts=scope.spread and scope.spread.count,
            bandwidth_bits_per_second=scope.spread and scope.spread.bandwidths_bits_per_second[0],
        )
        yield launch
        for each in scope.suffered:
            yield dataclasses.replace(launch, task=dataclasses.replace(launch.task, inject=each))
            for own in strategy.recovers_with:
                yield dataclasses.replace(
                    launch, task=dataclasses.replace(task, inject=each), options=strategy.options(**own)
                )


def task_of(scope: Scope) -> Task:
    """What every launch trains: a certificate's task in shorter windows, with a checkpoint every 50 steps."""
    return dataclasses.replace(
        certificate_task("digits", scope.workers),
        warmup_steps=10,
        window_steps=10,
        checkpoint_steps=50,
        deadline_seconds=scope.deadline_seconds,
    )


def make(planned: PlannedLaunch, folder: Path, executor: Executor[Any]) -> Record:
    """Make one launch and return its record; its account says then who noticed the fault, and in which words."""
    if isinstance(executor, Cluster):
        # A virtual host's checkpoint outlives it on this machine's disk.
        executor = dataclasses.replace(executor, shares_disk=True)
    record, path = run_planned(planned, folder, executor), recovery_path(folder / f"{planned.name}.json")
    account = Recovery(fault=planned.task.inject or "")
    if path.exists():
        account = read_record(path, Recovery)
        log = path.with_suffix(".log").read_text(encoding="utf-8", errors="replace")
        by, message = noticed(account, log, planned.strategy.launcher, planned.task.deadline_seconds)
        account = structs.replace(account, noticed_by=by, message=message)
    write_record(path, structs.replace(account, repetition=planned.repetition))
    return record


_KEPT = Measure(
    name="of_undisturbed",
    label="of undisturbed, %",
    factor=100,
    digits=0,
    meaning="steps per second of the launch, over those without a fault in the same round",
)


def observe(name: str, launch: AccountedLaunch) -> Iterator[Observation | Missing]:
    """Of a fault what it cost and the steps of rank 0, of an undisturbed launch what its checkpoints cost."""
    record, account = launch.record, launch.account
    world = ", ".join(filter(None, [f"{record.task.workers} workers", record.placement]))
    if not account.attempts or (record.status != "ok" and not account.fault):
        yield Missing(
            subject=launch.fault,
            world=world,
            series=launch.strategy,
            round=account.repetition,
            status=record.status,
            reason=record.reason or "It left no account.",
        )
        return
    row = partial(Observation, subject=launch.fault, world=world, series=launch.strategy, launch=name)
    row = partial(row, round=account.repetition, oversubscribed=record.oversubscribed)
    values: dict[str, float | None] = {}
    if not account.fault:
        values["saving_seconds"], values["saving_share"] = saving_cost(record) or (None, None)
    else:
        values["noticed_seconds"] = account.detection_seconds
        if launch.has_recovered:
            values["next_step_seconds"], values["steps_again"] = account.next_step_seconds, account.steps_again
        if launch.undisturbed_goodput:
            values[_KEPT.name] = launch.goodput / launch.undisturbed_goodput
        for moment in account.moments:
            if moment.rank == 0:
                yield row(x=moment.seconds, measure="steps", value=moment.step)
    for measure, value in values.items():
        if value is not None:
            yield row(measure=measure, value=value)


def show(launches: Sequence[AccountedLaunch], observed: pd.DataFrame) -> Display:
    """Strategies beside one another after each fault, those first that kept most of an undisturbed launch."""
    kept = answers.medians(whole(observed, _KEPT.name)).sort_values(["median", "series"], ascending=[False, True])
    colors = {launch.strategy: launch.record.colors for launch in launches}
    disturbed = [launch for launch in launches if launch.account.fault and launch.account.attempts]
    return Display(
        title="What happens when a worker dies",
        answer=_answer(disturbed, kept),
        contender="strategy",
        series=[Series(name=name, colors=colors[name]) for name in dict.fromkeys([*kept["series"], *colors])],
        measures=[
            Measure(name="noticed_seconds", label="noticed after, s", digits=1, meaning="until a first process ended"),
            Measure(name="next_step_seconds", label="next step after, s", digits=1, meaning="until a step that is new"),
            Measure(name="steps_again", label="steps again", digits=0, meaning="computed twice"),
            _KEPT,
            Measure(name="saving_seconds", label="a checkpoint, ms", factor=1e3, meaning="added to training by saving"),
            Measure(name="saving_share", label="of the training, %", factor=100, digits=1),
            Measure(name="steps", label="steps of rank 0", over="seconds since the launch began"),
        ],
        method=_method(launches[0].record.task),
        tables=[_endings(disturbed)] if disturbed else [],
    )


def _answer(disturbed: Sequence[AccountedLaunch], kept: pd.DataFrame) -> str:
    """Which strategy lost least, with which `kept` begins, and whether what went on computed the same."""
    verdicts = [launch.verdict for launch in disturbed if launch.became != ENDED]
    if not verdicts:
        return "No launch went on after its fault."
    wrong = sorted({launch.strategy for launch in disturbed if launch.became == OTHER})
    maths = f"What went on, held to the oracle: {_counted(verdicts)}"
    maths += f"; {', '.join(wrong)} trained something else." if wrong else "."
    if kept.empty:
        return maths
    best = kept.to_dict("records")[0]
    return (
        f"With {best['subject']}, {best['series']} kept most by the medians: {written(_KEPT, best)} % of the steps per "
        f"second of an undisturbed launch. {maths}"
    )


def _endings(disturbed: Sequence[AccountedLaunch]) -> Table:
    """What became of each strategy's launches after each fault, who noticed it, and in which words."""
    endings = pd.DataFrame(
        {
            "strategy": launch.strategy,
            "fault": launch.fault,
            "noticed by": launch.account.noticed_by or "nobody",
            "then": launch.became,
            "the maths then": launch.verdict or DASH,
            "in which words": launch.account.message or DASH,
        }
        for launch in disturbed
    )
    groups = endings.groupby(["strategy", "fault"], sort=False)
    rows = groups.agg(_counted).assign(n=groups.size().astype(str)).reset_index()
    return Table(title="What became of them", columns=[*rows.columns], rows=rows.to_numpy().tolist(), is_printed=True)


def _counted(words: Iterable[str]) -> str:
    """The words, with how often where they aren't always the same."""
    counts = Counter(words)
    return ", ".join(word if len(counts) == 1 else f"{count} {word}" for word, count in counts.items())


def _method(task: Task) -> list[str]:
    """How the numbers came about."""
    return [
        "A fault is a signal from outside to the process of one rank, or happens to a virtual host: its cable is "
        "pulled. No strategy's loop knows of it, and times count from it on.",
        "With restart Lockstep starts a launch again from its checkpoint, which is saved every "
        f"{task.checkpoint_steps} steps; the figure's line falls back by the steps that are computed again. Otherwise "
        "the strategy's own system starts the worker again, or goes on without.",
        f"An attempt is ended after {task.deadline_seconds:g} s at the latest.",
        "The maths then: updates, losses and rows of what went on, held to the float64 oracle from its first step on.",
    ]


EXPERIMENT = Experiment(
    name="faults",
    about=__doc__ or "",
    scope=Scope,
    hosts="virtual",
    record=Record,
    stages=in_rounds(launches),
    make=make,
    may_fail=lambda record: record.task.inject is not None,
    gather=accounted_launches,
    observe=observe,
    show=show,
)


if __name__ == "__main__":
    exit_with_one_line(partial(run, EXPERIMENT))
