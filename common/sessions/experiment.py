"""The journey of every experiment: plan, hosts, stages of launches, observations, what they tell, and the report."""

import dataclasses
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import pandas as pd
import tyro
from msgspec import structs
from rich.console import Console
from rich.table import Table

from common.contract.dataset import preset_task
from common.contract.task import Task
from common.errors import UserError
from common.files import ensure_writable
from common.launching.executor import HERE, Executor, run_planned
from common.launching.hosts import slurm
from common.launching.hosts.selection import Selection
from common.launching.hosts.slurm import SlurmOptions
from common.observations import display, table
from common.observations.display import Display, Observed
from common.observations.table import Missing, Observation
from common.records.certificate import trusted
from common.records.files import read_record
from common.records.header import Header
from common.records.presentation import read_presented
from common.records.training import Record
from common.sessions import chosen_hosts, submission
from common.sessions.session import (
    Launch,
    Options,
    Output,
    Placed,
    Schedule,
    Session,
    Stage,
    begin,
    console_for,
    counted,
    report,
    rounds_of,
)

L = TypeVar("L")
"""What a launch is observed from: its record, or that and what else it left."""


@dataclass(frozen=True, kw_only=True)
class ExperimentOutput(Output):
    """Options of what an experiment ends with."""

    again: Path | None = None
    """A session's folder whose tables and report are made again; nothing is measured."""


@dataclass(frozen=True)
class Arguments:
    """An experiment's command line; `parse` gives the fields the types and the defaults that an experiment has."""

    scope: Any
    """What is measured."""
    output: ExperimentOutput
    session: Options
    selection: SlurmOptions = field(default_factory=SlurmOptions)
    """Where launches are made: on one machine, or, where it is a `Selection`, over hosts as well."""


def _trusted(folder: Path, records: Mapping[str, Any]) -> Mapping[str, Any]:
    """The records that numbers may rest on."""
    return trusted(records, folder) if all(isinstance(each, Record) for each in records.values()) else records


@dataclass(frozen=True, kw_only=True)
class Experiment(Generic[L]):
    """What one experiment differs in from all others."""

    name: str
    """That of its Nox session, and of its module in `common.laboratory`."""
    results: str = ""
    """How its sessions' folders and its report are called; empty: by its name."""
    about: str
    """What `--help` begins with."""
    scope: type[Any]
    """What can be asked for: a dataclass.

    It has `repetitions`, and where these may be None a `profile`. Where launches may be over hosts it has `ranks`, the
    numbers of workers that share something, and a field `spread`, which takes what is known of the hosts.
    """
    hosts: Literal["one", "virtual", "any"] | Callable[[Any], Selection] = "one"
    """On which hosts launches can be: on one machine alone, or also over several that this machine makes, or any.

    A function chooses them by the scope, where no options do.
    """
    record: type[Header]
    """What each of its launches leaves in the session's folder."""
    records_below: Mapping[str, type[Header]] = field(default_factory=dict[str, type[Header]])
    """What launches leave in folders below that, by the folders' names: those that are `Placed` there."""
    prepare: Callable[[Any, Path], None] = lambda scope, results: None
    """Sees to it, before a session begins, that a scope can be had; the folder is that of all sessions' results."""
    stages: Callable[[Any, int, Path], Iterable[Stage[Any]]]
    """A scope's launches, by the seed of their order and the session's folder. `in_rounds` gives those of rounds."""
    plan: Callable[[Any, Path], pd.DataFrame] | None = None
    """What a scope is going to measure, as it's printed; None: each launch with how often it is made."""
    plan_table: Callable[[Sequence[Stage[Any]], int], pd.DataFrame] | None = None
    """The stages and the seed of their order as its report reads them; None: it reads no plan."""
    make: Callable[[Any, Path, Executor[Any]], Header] = run_planned
    """Makes one launch in the folder of its record, which it returns."""
    may_fail: Callable[[Any], bool] = lambda record: False
    """Whether the launch with this record may end for good, since that is what was to be found out."""
    gather: Callable[[Path, Mapping[str, Any]], Mapping[str, L]] = _trusted
    """Makes of a session's records, with what else is in its folder, what is observed; empty: there is nothing.

    By default these are the records, without trainings that computed something else than declared.
    """
    observe: Callable[[str, L], Iterable[Observation | Missing]] = lambda launch, gathered: ()
    """The rows of a launch, by the stem of its record's file, whatever became of it."""
    show: Callable[[Sequence[L], pd.DataFrame], Display] | None = None
    """How the observations of these launches are shown; None: its report reads the records themselves."""
    keep: Callable[[Path, Mapping[str, L]], int] = lambda folder, launches: 0
    """Keeps in the folder what else they tell; returns the exit status."""
    report: str = "reports.experiment"
    """The module that writes the report."""


def rounds_in(scope: Any) -> int:  # noqa: ANN401
    """How many rounds a scope has: its `repetitions`, or without that as many as its profile."""
    return {"quick": 6, "full": 10}[scope.profile] if scope.repetitions is None else scope.repetitions


def in_rounds(launches: Callable[[Any, int], Iterable[Any]]) -> Callable[[Any, int, Path], list[Stage[Any]]]:
    """As many rounds as a scope has, of launches by the scope and the round's number, from 1."""
    return lambda scope, seed, _: rounds_of(rounds_in(scope), seed, partial(launches, scope))


def clocked_task(preset: str, workers: int, batch: int, warmup_steps: int, window_steps: int, windows: int) -> Task:
    """A preset's task under weak scaling, with so many rows per worker, clocked in so many windows."""
    return dataclasses.replace(
        preset_task(preset),
        scaling="weak",
        workers=workers,
        batch=batch,
        warmup_steps=warmup_steps,
        window_steps=window_steps,
        steps=warmup_steps + windows * window_steps,
        deadline_seconds=180.0,
    )


def parse(experiment: Experiment[Any], options: Sequence[str]) -> Arguments:
    """What these options ask for. Raises UserError for a value that can't be meant."""
    config = (tyro.conf.EnumChoicesFromValues,)
    out = Path(f"reports/out/{experiment.results or experiment.name}.pdf")
    shown = tyro.conf.OmitArgPrefixes
    selection = Selection if experiment.hosts in ("virtual", "any") else SlurmOptions
    of_hosts = tyro.conf.Suppress[selection] if callable(experiment.hosts) else shown[selection]
    fields = [
        ("scope", shown[experiment.scope], field(default_factory=experiment.scope)),
        ("output", shown[ExperimentOutput], field(default_factory=partial(ExperimentOutput, out=out))),
        ("session", shown[Options], field(default_factory=Options)),
        ("selection", of_hosts, field(default_factory=selection)),
    ]
    kind = dataclasses.make_dataclass("Arguments", fields, bases=(Arguments,), frozen=True)
    arguments = tyro.cli(kind, description=experiment.about, args=list(options), config=config)
    if rounds_in(arguments.scope) < 1:
        raise UserError(f"--repetitions {arguments.scope.repetitions}: give a whole number above 0.")
    if experiment.hosts == "virtual" and not arguments.selection.is_here and arguments.selection.virtual_hosts is None:
        raise UserError(f"{experiment.name} over hosts takes those that can be lost without harm: use --virtual-hosts.")
    return arguments


def run(experiment: Experiment[Any]) -> None:
    """Run what the command line asks for. Raises UserError for what a user can mend."""
    arguments, module = parse(experiment, submission.own_words(sys.argv[1:])), f"common.laboratory.{experiment.name}"
    console, scope, output = console_for(160), arguments.scope, arguments.output
    if output.again:
        sys.exit(conclude(console, experiment, output.again, output.out))
    selection = experiment.hosts(scope) if callable(experiment.hosts) else arguments.selection
    if selection.submit:
        submission.submit(console, experiment.name, module, arguments)
        return
    workers = scope.ranks if isinstance(selection, Selection) else (1,)
    hosts, spread = chosen_hosts.find(console, module, selection, workers, output.plan)
    if spread:
        scope = dataclasses.replace(scope, spread=spread)
    if output.plan:
        results = arguments.session.results
        plan = experiment.plan(scope, results) if experiment.plan else _plan(experiment, scope)
        print_table(
            console, display.Table(title="", columns=[*plan.columns], rows=plan.astype(str).to_numpy().tolist())
        )
        return
    ensure_writable(output.out)
    experiment.prepare(scope, arguments.session.results)
    identity = chosen_hosts.identity(scope, selection, hosts)
    job = slurm.job() if selection.slurm else None
    with begin(console, experiment.name, arguments, identity, experiment.results, job) as session:
        _measure(session, experiment, scope, hosts or HERE)
    sys.exit(conclude(console, experiment, session.folder, output.out))


def _measure(session: Session, experiment: Experiment[Any], scope: object, hosts: Executor[Any]) -> None:
    """Make all launches of a session."""

    def make(launch: Launch, folder: Path) -> Header:
        placed = launch if isinstance(launch, Placed) else Placed("", launch)
        return experiment.make(placed.launch, folder / placed.folder, hosts)

    def read(path: Path) -> Header:
        return read_record(path, experiment.records_below.get(path.parent.name, experiment.record))

    stages = experiment.stages(scope, session.order_seed, session.folder)
    table = experiment.plan_table
    plan_table = (lambda made: table(made, session.order_seed)) if table else None
    session.run(Schedule[Any, Header](stages), make, read, plan_table=plan_table)


def _plan(experiment: Experiment[Any], scope: object) -> pd.DataFrame:
    """Each launch by its name without its round, and how often it is made."""
    stages = experiment.stages(scope, 0, Path())
    count = Counter(launch.name.rpartition("-")[0] for stage in stages for launch in stage.launches)
    later = [] if isinstance(stages, Sequence) else [("others", "by what these tell")]
    return pd.DataFrame([*sorted(count.items()), *later], columns=["launch", "how often"])


def conclude(console: Console, experiment: Experiment[Any], folder: Path, out: Path) -> int:
    """Observe the records of a session, print and keep what they tell, and write the report; returns the exit status.

    Raises UserError where the folder has no record of this experiment.
    """
    records: dict[str, Any] = {**read_presented(folder, experiment.record)}
    for below, kind in experiment.records_below.items():
        records |= {f"{below}/{launch}": record for launch, record in read_presented(folder / below, kind).items()}
    launches = experiment.gather(folder, records)
    if not launches:
        raise UserError(f"{folder} holds no records of {experiment.name}: measure some first, or name another folder.")
    if experiment.show:
        found = observed_of(experiment, launches)
        found.write(folder)
        for each in display.tables(found):
            print_table(console, each)
        for sentence in [display.answer(found), *found.display.sentences]:
            console.print(sentence, markup=False, highlight=False)
    status = experiment.keep(folder, launches)
    failed = counted(console, (record for record in records.values() if not experiment.may_fail(record)))
    return report(experiment.report, folder, out) or failed or status


def observed_of(experiment: Experiment[L], launches: Mapping[str, L]) -> Observed:
    """What the launches of an experiment that shows observations tell, by the stems of their records' files."""
    assert experiment.show, "It has observations."
    rows = [row for name, launch in launches.items() for row in experiment.observe(name, launch)]
    observed, missing = table.tables(rows)
    shown = experiment.show([*launches.values()], observed)
    # What no record in the folder itself tells of says when it was made.
    payload = "" if shown.made_at else str(experiment.record.__struct_config__.tag)
    return Observed(observed, missing, structs.replace(shown, payload=payload))


def print_table(console: Console, table: display.Table) -> None:
    """Print a table, numbers flush right."""
    printed = Table(title=table.title or None, title_justify="left")
    for place, name in enumerate(table.columns):
        printed.add_column(name, justify="left" if place in table.of_words else "right")
    for row in table.rows:
        printed.add_row(*row)
    console.print(printed)
